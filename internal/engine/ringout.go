// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"hash/fnv"
	"net/netip"
	"sync"

	"verbena/internal/monotime"
	"verbena/internal/roce"
	"verbena/internal/sys/shmring"
)

// ringOut is the ring to a process of this host; many queue pairs write to it.
type ringOut struct {
	// immutable
	eng  *Engine
	slot int
	out  *shmring.Out // nil within this process

	mu     sync.Mutex        // innermost but for what PollOutput takes
	tx     *shmring.Producer // guarded by mu; unmapped when gone
	gone   bool              // guarded by mu: nothing goes any more
	died   monotime.Time     // guarded by mu: when the process at the other end ended; 0 if that is not why
	memory []byte            // guarded by mu: where the next train goes; nil if there is no room
	taken  uint64            // guarded by mu: how far the other end had read when the ring was first found full
	since  monotime.Time     // guarded by mu: when that was; 0 while there is room
	reach  reach             // guarded by mu
}

const (
	// ringRetry is how soon a queue pair that found the ring full looks again: by
	// then a reader has taken a good part of it. Acknowledgements make it look
	// sooner.
	ringRetry = 50 * monotime.Microsecond
	// ringLook is how often it looks at a ring that nobody has read for long. In
	// between it is an eighth of that time.
	ringLook = 20 * monotime.Millisecond
	// willPatience is how long queue pairs wait, after their peer's process has ended, for
	// the DREQ of its connection before they fail: a program is to learn first that the
	// peer has gone, as it does with an adapter, whose time-outs are longer. A DREQ takes
	// some milliseconds on a busy machine.
	willPatience = 100 * monotime.Millisecond
	// stallPatience is how long a full ring holds packets back that are not
	// acknowledged, while nobody reads it. After that they are lost, as on any
	// network.
	stallPatience = 100 * monotime.Millisecond
)

// room is what may be written to a ring.
type room uint8

const (
	ringReady room = iota
	ringFull       // later
	ringStuck      // nobody reads: what is not acknowledged is lost
	ringGone       // nothing, ever
)

// roomLocked reports whether a train fits; the caller holds mu.
func (o *ringOut) roomLocked() room {
	if o.gone {
		return ringGone
	}
	if o.memory = o.tx.Reserve(); o.memory != nil {
		o.since = 0
		return ringReady
	}
	if o.tx.Corrupt() {
		o.eng.wire.localCorrupt.Add(1)
		o.gone = true
		if o.out != nil {
			o.out.HangUp() // the background goroutine does the rest
		}
		return ringGone
	}
	now := monotime.Now()
	if o.since == 0 || o.taken != o.tx.Taken() {
		o.since, o.taken = now, o.tx.Taken()
	}
	if now.Sub(o.since) < stallPatience {
		return ringFull
	}
	return ringStuck
}

// lookAgainLocked returns when to look whether a full ring has room; the caller
// holds mu. Many queue pairs may wait for a process that is stopped.
func (o *ringOut) lookAgainLocked() monotime.Time {
	if o.since == 0 {
		return monotime.Never
	}
	now := monotime.Now()
	return now.Add(min(max(now.Sub(o.since)/8, ringRetry), ringLook))
}

// mourned reports whether the process at the other end has ended, and until when its
// last will may still come.
func (o *ringOut) mourned() (until monotime.Time, ended bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.died.Add(willPatience), o.died != 0
}

// wake ends the reader's sleep.
func (o *ringOut) wake() {
	if o.out == nil {
		o.eng.bg.poller.Wake()
		return
	}
	o.mu.Lock()
	if o.out.Open() {
		o.out.Wake()
	}
	o.mu.Unlock()
}

// alive reports whether the reader is there.
func (o *ringOut) alive() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.gone && (o.out == nil || o.out.Alive())
}

func (o *ringOut) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.gone && o.out != nil && o.out.PeerEnded() { // gone: by nonsense in it
		o.died = monotime.Now()
	}
	o.gone = true
	if o.out != nil {
		o.eng.local.listener.Forget(o.out)
		o.out.Close()
	}
}

// drainRing writes to the ring what the machine has to send, as long as it is the
// queue pair's. It reports false if the ring is gone.
func (c *roceConn) drainRing(o *ringOut, now monotime.Time) bool {
	waking := false
	ok := c.fillRing(o, now, &waking)
	if waking {
		c.eng.local.waking.Add(-1)
	}
	return ok
}

// fillRing is drainRing, and sets waking when it is counted there.
func (c *roceConn) fillRing(o *ringOut, now monotime.Time, waking *bool) bool {
	p := pumpers.Get().(*pumper)
	defer pumpers.Put(p)
	for !c.closed && c.ring == o {
		o.mu.Lock()
		r, more := ringReady, true
		for n := 0; more && n < trainsPerWrite; n++ {
			r = o.roomLocked()
			if r == ringStuck && c.acked != nil {
				r = ringFull // the reader lives: its end would end the ring
			}
			if r == ringFull || r == ringGone {
				break
			}
			more = c.writeTrain(o, now, p.bursts[0])
		}
		wake := r != ringGone && o.tx.MustWake()
		again := o.lookAgainLocked()
		o.mu.Unlock()
		if r == ringGone {
			return false
		}
		if wake { // no connection's lock is held across a system call
			if !*waking {
				*waking = true
				c.eng.local.waking.Add(1)
			}
			c.mu.Unlock()
			o.wake()
			c.mu.Lock()
			continue // others left their work to this pump, and may have modified the queue pair
		}
		if r == ringFull {
			c.retry = again
			break
		}
		if !more {
			break
		}
	}
	return true
}

// writeTrain writes the machine's next train to the ring, whose lock is held. It
// reports false if there is none.
func (c *roceConn) writeTrain(o *ringOut, now monotime.Time, b *roce.Burst) bool {
	b.Limit(roce.MaxSegments)
	if o.memory != nil {
		b.Into(o.memory, o.reach.far())
	}
	b.Patient(c.late.waiting)
	defer b.Reset()
	if c.late.waiting {
		if _, ok := c.packets.Patient(); ok {
			return false // as in drain
		}
	}
	begin := o.reach.clock()
	if !c.packets.PollOutput(now, b) {
		return false
	}
	w := &c.eng.wire
	if o.memory == nil {
		w.localLost.Add(uint64(b.Packets()))
		return true
	}
	o.reach.wrote(b.Bytes(), o.reach.clock().Sub(begin))
	o.tx.Commit(b.Bytes(), &shmring.Message{Segment: b.SegmentBytes(), TOS: b.Path().TClass, Tag: c.tag})
	w.localSent.Add(uint64(b.Packets()))
	return true
}

// pathTag tells the packets of one pair of addresses from those of others, as the
// addresses of an IP header do.
func pathTag(src, dst netip.Addr) uint32 {
	h := fnv.New32a()
	for _, a := range [...]netip.Addr{src, dst} {
		b := a.Unmap().As16()
		h.Write(b[:])
	}
	return h.Sum32()
}
