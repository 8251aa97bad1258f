// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"net/netip"
	"slices"
	"sync"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/roce/rc"
	"verbena/internal/sys/shmring"
	"verbena/internal/transport/shm"
	wire "verbena/internal/wire/roce"
)

// relay is the way from an XRC target to one of another process of the host: the ring to that
// process. The answers come by the ring from it.
type relay struct {
	conn *Conn
	out  *shm.Out
	slot int
	tag  uint32
	addr netip.Addr // of both targets
	mtu  ib.MTU
	to   ib.QPN // known once the process has answered
	wake func()
}

// newRelay makes a way to the process of a slot, nil if there is no ring to it. It may wait for
// that process, and is called without the lock.
func (c *Conn) newRelay(slot int) *relay {
	var attr ib.QPAttr
	c.Lock()
	path := c.path
	c.packets.Query(&attr)
	c.Unlock()
	if path == nil || !c.roce.rings.Shared() || slot == c.roce.rings.Slot() {
		return nil
	}
	out := c.roce.rings.To(slot)
	if out == nil {
		return nil
	}
	rings := c.roce.rings
	return &relay{conn: c, out: out, slot: slot, tag: pathTag(path.Src, path.Src),
		addr: path.Src, mtu: attr.PathMTU, wake: func() {
			out.Wake()
			rings.EndWake()
		}}
}

// beginRelays has the target qp, which is c's machine, pass requests on. Until there is a relay
// they wait. The caller holds the lock.
func (c *Conn) beginRelays(qp *rc.QP) {
	if c.passes == nil {
		c.target = qp
		c.passes = &passes{c.answer, c.retryRelays, qp.FetchMore, c.awaitRelay, c.relayEnded}
		c.roce.relays.add(c)
	}
}

// addRelay has the target pass requests on by r from now on. The caller holds the lock.
func (c *Conn) addRelay(r *relay) {
	c.endRelay(r.slot)
	c.relays = append(c.relays, r)
}

// passes has the functions of a target that passes requests on. As they are called by it, the
// linker leaves them out of programs that share no XRC domain.
type passes struct {
	answer func(now monotime.Time, slot int, tag uint32, p *wire.Packet, n uint32) bool
	retry  func()
	fetch  func() bool
	await  func()
	ended  func(*shm.Out) bool
}

// relayTo returns the way to the process of a slot, nil if there is none.
func (c *Conn) relayTo(slot int) *relay {
	for _, r := range c.relays {
		if r.slot == slot {
			return r
		}
	}
	return nil
}

func (c *Conn) endRelay(slot int) {
	c.relays = slices.DeleteFunc(c.relays, func(r *relay) bool { return r.slot == slot })
}

// endRelays ends all of addRelay. The caller holds the lock.
func (c *Conn) endRelays() {
	if c.passes != nil {
		c.roce.relays.remove(c)
	}
	c.relays, c.full, c.passes = nil, nil, nil
}

// Forward implements rc.Forwarder.
func (r *relay) Forward(p *wire.Packet, packets uint32) rc.Passage {
	c, o := r.conn, r.out
	o.Lock()
	defer o.Unlock()
	switch o.RoomLocked() {
	case shm.Full, shm.Stuck: // the reader lives: its end would end the ring
		c.full = o
		return rc.NoRoom
	case shm.Gone:
		return rc.NoWay
	}
	begin := o.ClockLocked()
	p.DestQP = r.to
	memory := o.MemoryLocked()
	if len(memory) < wire.MaxHeaderBytes+len(p.Payload) {
		return rc.NoWay
	}
	b := wire.AppendICRC(p.Append(memory[:0]), packets-1)
	o.CommitLocked(len(b), int(packets), begin,
		&shmring.Message{Segment: len(b), TOS: c.path.TClass, Tag: r.tag})
	if o.MustWakeLocked() {
		c.roce.rings.BeginWake()
		after := c.After()
		c.SetAfter(r.wake)
		if after != nil {
			c.SetAfter(func() {
				after()
				r.wake()
			})
		}
	}
	return rc.Passed
}

// retryRelays tries again what a full ring has held up.
func (c *Conn) retryRelays() {
	if c.full != nil {
		c.full = nil
		c.target.Retry()
	}
}

// awaitRelay has FlushOutput be called again when a full ring may have room.
func (c *Conn) awaitRelay() {
	o := c.full
	if o == nil {
		return
	}
	o.Lock()
	again := o.LookAgainLocked()
	o.Unlock()
	c.RetryAt(again)
}

// relayEnded notifies the target that a ring has ended. It reports false if nothing was passed on
// by it.
func (c *Conn) relayEnded(o *shm.Out) bool {
	r := c.relayTo(o.Slot())
	if r == nil || r.out != o {
		return false
	}
	c.endRelay(o.Slot())
	c.target.Lost(o.Slot())
	return true
}

// answer gives a target the answer of another process's, which came by the ring of a slot. It
// stands for n packets. It reports false if nothing was passed on there.
func (c *Conn) answer(now monotime.Time, slot int, tag uint32, p *wire.Packet, n uint32) bool {
	r := c.relayTo(slot)
	if r == nil || r.tag != tag {
		return false
	}
	c.target.HandleAnswer(now, slot, p, n)
	return true
}

// relays has the targets of a process that pass requests on.
type relays struct {
	mu      sync.Mutex          // a leaf: taken with a Conn locked
	targets []*Conn             // guarded by mu
	look    func(slot int) bool // guarded by mu: pending, once there was a target
}

func (r *relays) add(c *Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.look = r.pending
	if !slices.Contains(r.targets, c) {
		r.targets = append(r.targets, c)
	}
}

func (r *relays) remove(c *Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.targets = slices.DeleteFunc(r.targets, func(o *Conn) bool { return o == c })
}

// unanswered reports whether another process has requests that came from the process of a slot.
// That one is not to repeat them: nothing was lost.
func (r *relays) unanswered(slot int) bool {
	r.mu.Lock()
	look := r.look
	r.mu.Unlock()
	return look != nil && look(slot)
}

func (r *relays) pending(slot int) bool {
	r.mu.Lock()
	targets := slices.Clone(r.targets)
	r.mu.Unlock()
	return slices.ContainsFunc(targets, func(c *Conn) bool {
		c.Lock()
		defer c.Unlock()
		return c.peerSlot == slot && c.passes != nil && c.target.Passing()
	})
}
