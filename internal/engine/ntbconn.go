// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"net/netip"
	"runtime"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/ntb/backend"
	"verbena/internal/ntb/rdma"
	"verbena/internal/qp"
)

// ntbConn is a queue pair on a link of windows. The node does its work; the Conn
// is what the application locks, posts to and closes. In a meeting place it goes to
// the link that leads to its peer when it is told which one that is.
type ntbConn struct {
	Conn
	dev *NTB

	// guarded by mu
	link *ntbLink
	q    *rdma.QP // Conn.machine
}

// NewConn makes a queue pair on the device. config is called with its number;
// onEvent later, without locks, with each event.
func (l *NTB) NewConn(config func(ib.QPN) qp.Config, onEvent func(ib.EventType)) (*Conn, error) {
	c := &ntbConn{dev: l}
	err := l.eng.newConn(l.account, onEvent, &c.Conn, func(qpn ib.QPN) {
		c.mu = &l.mu
		cfg := config(qpn)
		l.mu.Lock()
		c.link = l.home
		c.q = c.link.node.NewQP(cfg)
		l.mu.Unlock()
		c.machine, c.way, c.ntb = c.q, c, c
	})
	if err != nil {
		return nil, err
	}
	return &c.Conn, nil
}

// drain writes what any queue pair of the link has to send. What it raised in
// others is told when the lock is given back.
func (c *ntbConn) drain(now monotime.Time) {
	x := c.link
	x.flush(now)
	x.setTimer()
	if x.node.Events() && c.after == nil {
		c.after = x.tell
	}
}

// quick does what was posted, where that takes no more than stores to the peer's
// window: then it gives the lock back.
func (c *ntbConn) quick() bool {
	all, wake := c.q.Quick()
	if wake {
		c.link.link.Ring()
	}
	if all {
		c.mu.Unlock()
	}
	return all
}

// tell tells events that another call has left.
func (x *ntbLink) tell() {
	x.dev.mu.Lock()
	x.note()
	x.dev.deliver()
}

func (c *ntbConn) posted() {}

func (c *ntbConn) settle(monotime.Time) {}

func (c *ntbConn) modification(attr *ib.QPAttr, mask ib.QPAttrMask, _ netip.Addr) (func(monotime.Time), error) {
	modify := func(now monotime.Time) {
		c.q.Modify(now, attr, mask)
		if !c.q.Closed(now) {
			c.after = c.awaitClosed
		}
	}
	l := c.dev
	if !l.Shared() || mask&ib.QPStateAttr == 0 || attr.State != ib.QPRTR {
		return modify, nil
	}
	peer := l.peerOf(attr)
	return func(now monotime.Time) {
		if x := l.living(peer); x != nil {
			x.receive(false) // the peer may have closed this link already
		}
		c.move(now, l.linkTo(now, peer))
		modify(now)
	}, nil
}

// awaitClosed returns when the peer stores nothing more to our regions by a right that
// the queue pair has taken back, or the link is down. It takes as long as
// NTB.Withdraw.
func (c *ntbConn) awaitClosed() {
	c.dev.mu.Lock()
	c.dev.await(c.q.Closed)
}

// await makes progress until done, which is called with the lock held, says so. The
// caller holds the lock, which await gives back.
func (l *NTB) await(done func(now monotime.Time) bool) {
	for {
		now := monotime.Now()
		over := done(now)
		for _, x := range l.all {
			x.turn(now)
		}
		l.deliver()
		if over {
			return
		}
		runtime.Gosched()
		l.tryPoll(false)
		l.eng.fireDue(monotime.Now())
		l.mu.Lock()
	}
}

// move takes a queue pair, which is in INIT, to another link: there it is made anew,
// with the same queues.
func (c *ntbConn) move(now monotime.Time, to *ntbLink) {
	if c.link == to {
		return
	}
	old, attr := c.q, c.q.Attr
	c.account.add(old.AppendCounts(nil))
	old.Destroy(now)
	c.link.flush(now)
	c.link.setTimer()
	c.link = to
	c.q = to.node.NewQP(old.Config)
	c.q.Attr = attr
	c.machine = c.q
	init := ib.QPAttr{State: ib.QPInit}
	c.q.Modify(now, &init, ib.QPStateAttr)
}

func (c *ntbConn) end() (release func()) {
	now := monotime.Now()
	c.q.Destroy(now)
	c.link.flush(now)
	if !c.q.Closed(now) {
		return c.awaitClosed
	}
	return c.link.tell
}

// peerOf returns which process of the meeting place has the queue pair that attributes
// name: its number says which of a side's, the address which side. Without an
// address it is the other side, if that process is there.
func (l *NTB) peerOf(attr *ib.QPAttr) backend.Member {
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
