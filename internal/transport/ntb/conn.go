// SPDX-License-Identifier: BSD-2-Clause

package ntb

import (
	"net/netip"
	"runtime"

	"verbena/ib"
	"verbena/internal/engine"
	"verbena/internal/monotime"
	"verbena/internal/ntb/backend"
	"verbena/internal/ntb/rdma"
	"verbena/internal/qp"
	"verbena/internal/queue"
)

// Conn is a queue pair on an NTB link. The node does its work; the application locks, posts to and
// closes the Conn. In a shared-memory hub it moves to the link to its peer once it has one.
type Conn struct {
	engine.Conn
	dev *Device

	// guarded by mu
	link *peerLink
	q    *rdma.QP // Conn.machine
}

// NewConn makes a queue pair on the device. config is called with its number;
// onEvent later, without locks, with each event.
func (l *Device) NewConn(config func(ib.QPN) qp.Config,
	onEvent func(ib.EventType)) (*engine.Conn, error) {
	c := &Conn{dev: l}
	o := engine.ConnOptions{Counters: l.counters, OnEvent: onEvent, Lock: &l.mu}
	err := l.eng.NewConn(&c.Conn, c, o, func(qpn ib.QPN) qp.Machine {
		cfg := config(qpn)
		l.mu.Lock()
		defer l.mu.Unlock()
		c.link = l.home
		c.q = c.link.node.NewQP(cfg)
		return c.q
	})
	if err != nil {
		return nil, err
	}
	return &c.Conn, nil
}

// FlushOutput implements engine.Transport: it writes the output of all queue pairs of the link.
// Events that this raised in others follow when the lock is released.
func (c *Conn) FlushOutput(now monotime.Time) {
	x := c.link
	x.flush(now)
	x.setTimer()
	if x.node.Events() && c.After() == nil {
		c.SetAfter(x.tell)
	}
}

// Submit implements engine.Immediate: it does work that takes no more than stores to the peer's
// window.
func (c *Conn) Submit() (all bool) {
	all, wake := c.q.Quick()
	if wake {
		c.link.link.Ring()
	}
	return all
}

// ShortLimit implements engine.Immediate.
func (c *Conn) ShortLimit(op ib.WROpcode) int {
	switch op {
	case ib.WRRDMAWrite:
		return rdma.MaxStore
	case ib.WRSend, ib.WRSendWithImm, ib.WRSendWithInv:
		return rdma.MaxShort
	}
	return 0
}

// PostShort implements engine.Immediate: its lines, or bytes, are in the peer's window when
// it returns true.
func (c *Conn) PostShort(m *queue.Short) bool {
	if m.Op == ib.WRRDMAWrite {
		return c.q.Store(m)
	}
	return c.q.Send(m)
}

// tell delivers events that another call has left.
func (x *peerLink) tell() {
	x.dev.mu.Lock()
	x.note()
	x.dev.deliverUnlock()
}

// NotePost implements engine.Transport.
func (c *Conn) NotePost() {}

// FlushDelayedAck implements engine.Transport.
func (c *Conn) FlushDelayedAck(monotime.Time) {}

// Route implements engine.Transport.
func (c *Conn) Route() engine.Route { return engine.Route{Via: engine.ViaNTB} }

// PrepareModify implements engine.Transport.
func (c *Conn) PrepareModify(attr *ib.QPAttr, mask ib.QPAttrMask,
	_ netip.Addr) (func(monotime.Time), error) {
	modify := func(now monotime.Time) {
		c.q.Modify(now, attr, mask)
		if !c.q.Closed(now) {
			c.SetAfter(c.awaitClosed)
		}
	}
	l := c.dev
	if !l.Shared() || mask&ib.QPStateAttr == 0 || attr.State != ib.QPRTR {
		return modify, nil
	}
	peer := l.peerOf(attr)
	return func(now monotime.Time) {
		if x := l.living(peer); x != nil {
			x.receive(false)       // the peer may have closed this link already
			l.eng.WakeBackground() // it may sleep by the doorbell that was read
		}
		c.move(now, l.linkTo(now, peer))
		modify(now)
	}, nil
}

// awaitClosed returns when the peer stores nothing more to our regions by a right that the queue
// pair has taken back. It also returns when the link is down. It takes as long as Device.Withdraw.
func (c *Conn) awaitClosed() {
	c.dev.mu.Lock()
	c.dev.awaitUnlock(c.q.Closed)
}

// awaitUnlock makes progress until done, which is called with the lock held, says so. It
// releases the lock, which the caller holds.
func (l *Device) awaitUnlock(done func(now monotime.Time) bool) {
	for {
		now := monotime.Now()
		over := done(now)
		for _, x := range l.all {
			x.turn(now)
		}
		l.deliverUnlock()
		if over {
			return
		}
		runtime.Gosched()
		l.TryPoll(true)
		l.eng.FireDue(monotime.Now())
		l.mu.Lock()
	}
}

// move takes a queue pair, which is in INIT, to another link: there it is made anew,
// with the same queues.
func (c *Conn) move(now monotime.Time, to *peerLink) {
	if c.link == to {
		return
	}
	old, attr := c.q, c.q.Attr
	c.CountPast(old.AppendCounts(nil))
	old.Destroy(now)
	c.link.flush(now)
	c.link.setTimer()
	c.link = to
	c.q = to.node.NewQP(old.Config)
	c.q.Attr = attr
	c.SetMachine(c.q)
	init := ib.QPAttr{State: ib.QPInit}
	c.q.Modify(now, &init, ib.QPStateAttr)
}

// Detach implements engine.Transport.
func (c *Conn) Detach() (release func()) {
	now := monotime.Now()
	c.q.Destroy(now)
	c.link.flush(now)
	if !c.q.Closed(now) {
		return c.awaitClosed
	}
	return c.link.tell
}

// peerOf returns the process of the hub that has the queue pair named by the attributes. The number
// selects a process of a side, and the address selects the side. Without an address it is the other
// side, if that process is there.
func (l *Device) peerOf(attr *ib.QPAttr) backend.Member {
	self := l.place.Self()
	m := backend.Member{Side: 1 - self.Side, Slot: slotOf(attr.DestQPN)}
	own := backend.Member{Side: self.Side, Slot: m.Slot}
	if attr.AH.IsGlobal {
		if l.has(attr.AH.GRH.DGID.Addr()) {
			return own
		}
		return m
	}
	if !l.place.Present(m) && l.place.Present(own) {
		return own
	}
	return m
}
