package engine

import (
	"net/netip"
	"runtime"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/ntb/rdma"
	"verbena/internal/qp"
)

// ntbConn is a queue pair on a link of windows. The node does its work; the Conn
// is what the application locks, posts to and closes.
type ntbConn struct {
	Conn
	link *NTB
	q    *rdma.QP // Conn.machine; guarded by mu
}

// NewConn makes a queue pair on the link. config is called with its number;
// onEvent later, without locks, with each event.
func (l *NTB) NewConn(config func(ib.QPN) qp.Config, onEvent func(ib.EventType)) (*Conn, error) {
	c := &ntbConn{link: l}
	err := l.eng.newConn(l.account, onEvent, &c.Conn, func(qpn ib.QPN) {
		c.mu = &l.mu
		cfg := config(qpn)
		l.mu.Lock()
		c.q = l.node.NewQP(cfg)
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
	l := c.link
	l.flush(now)
	l.setTimer()
	if l.node.Events() && c.after == nil {
		c.after = l.tell
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
func (l *NTB) tell() {
	l.mu.Lock()
	l.deliver()
}

func (c *ntbConn) posted() {}

func (c *ntbConn) settle(monotime.Time) {}

func (c *ntbConn) modification(attr *ib.QPAttr, mask ib.QPAttrMask, _ netip.Addr) (func(monotime.Time), error) {
	return func(now monotime.Time) {
		c.q.Modify(now, attr, mask)
		if !c.q.Closed(now) {
			c.after = c.awaitClosed
		}
	}, nil
}

// awaitClosed returns when the peer stores nothing more to our regions by a right that
// the queue pair has taken back, or the link is down. It takes as long as
// NTB.Withdraw.
func (c *ntbConn) awaitClosed() {
	c.link.mu.Lock()
	c.link.await(c.q.Closed)
}

// await makes progress until done, which is called with the lock held, says so. The
// caller holds the lock, which await gives back.
func (l *NTB) await(done func(now monotime.Time) bool) {
	for {
		now := monotime.Now()
		over := done(now)
		l.leave(now)
		if over {
			return
		}
		runtime.Gosched()
		l.tryPoll(false)
		l.eng.fireDue(monotime.Now())
		l.mu.Lock()
	}
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
