// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"sync"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/ntb/rdma"
	"verbena/internal/qp"
)

// Conn is a queue pair as the engine sees it: a machine, the lock that
// serialises it and the way out. The zero value is not usable.
type Conn struct {
	// immutable after the engine has made it
	eng     *Engine
	account *Account
	qpn     ib.QPN
	onEvent func(ib.EventType) // called without locks held
	way     way                // what the Conn is part of
	roce    *roceConn          // the same, where that is what it is; else nil
	iwarp   *iwarpConn         // the same, where that is what it is; else nil
	ntb     *ntbConn           // the same, where that is what it is; else nil

	mu  *sync.Mutex // own, or one that it has in common with others; immutable
	own sync.Mutex

	// guarded by mu
	machine qp.Machine
	pumping bool
	closed  bool
	after   func()        // to be called by deliver, once
	armed   monotime.Time // when the timer heap will wake it, at the latest
	retry   monotime.Time // when to drain again what could not be written; Never if nothing

	alarm alarm
}

// way is how what a machine has to say leaves and what is said to it comes: one
// type a framing, which has the Conn in it and knows more of the machine. The
// methods are called with Conn.mu held, but for those that say otherwise.
type way interface {
	// drain writes until the machine has nothing more to send. It gives the lock
	// back while it writes; nobody else drains meanwhile. Where there is nowhere
	// to write to it does nothing.
	drain(now monotime.Time)
	// posted notes that the application posted work, before the machine hears of
	// it.
	posted()
	// settle sends what was put off for the application, which has turned to
	// something else. It may give the lock back meanwhile.
	settle(now monotime.Time)
	// modification is called without the lock. It sees to what attributes need,
	// such as a socket for the address src, and returns what applies them.
	modification(attr *ib.QPAttr, mask ib.QPAttrMask, src netip.Addr) (apply func(now monotime.Time), err error)
	// end takes what the connection was sent by from it. release, to be called
	// without the lock, gives it back.
	end() (release func())
}

// newConn gives a queue pair a number and puts it where it is found by that.
// fill sets what depends on the transport.
func (e *Engine) newConn(account *Account, onEvent func(ib.EventType), c *Conn, fill func(ib.QPN)) error {
	e.Settle()
	qpn, ok := e.conns.reserve()
	if !ok {
		return fmt.Errorf("engine: all %d queue pair numbers of this process are in use", e.conns.limit-firstQPN)
	}
	c.eng, c.account, c.qpn, c.onEvent = e, account, qpn, onEvent
	c.begin()
	fill(qpn)
	e.conns.publish(c)
	return nil
}

// begin gives c what it needs to be locked and woken.
func (c *Conn) begin() {
	c.mu = &c.own
	c.alarm = newAlarm(c.timeout)
	c.armed, c.retry = monotime.Never, monotime.Never
}

// QPN returns the queue pair's number.
func (c *Conn) QPN() ib.QPN { return c.qpn }

// Lock serialises access to the machine and its queues. Post under it, then
// call Ring, which unlocks.
func (c *Conn) Lock() { c.mu.Lock() }

// Unlock ends what Lock began, where nothing is to be sent.
func (c *Conn) Unlock() { c.mu.Unlock() }

// Machine returns the protocol machine; the caller holds the lock.
func (c *Conn) Machine() qp.Machine { return c.machine }

// Ring tells the machine of posted work and sends what it may. The caller holds
// the lock, which Ring releases.
func (c *Conn) Ring() {
	if c.ntb != nil && c.ntb.quick() {
		return
	}
	now := monotime.Now()
	c.way.posted()
	c.machine.Doorbell(now)
	c.pump(now)
}

// Store makes a short WRITE at once, without a place in the send queue, where the peer's
// memory is mapped here: rdma.QP.Store. The caller holds the lock, and keeps it.
func (c *Conn) Store(id uint64, flags ib.SendFlags, data []byte, key ib.RKey, va uint64) bool {
	return c.ntb != nil && c.ntb.q.Store(id, flags, data, key, va)
}

// Send makes a short SEND likewise: rdma.QP.Send. Ring is to follow.
func (c *Conn) Send(s *rdma.Short) bool {
	return c.ntb != nil && c.ntb.q.Send(s)
}

// RingReceives tells the machine of posted receives. They send nothing and are
// no answer to anybody: what is put off stays so. The caller holds the lock,
// which RingReceives releases.
func (c *Conn) RingReceives() {
	if c.machine.State() == ib.QPErr { // they are flushed
		c.Ring()
		return
	}
	c.mu.Unlock()
}

// Modify applies attributes. src is the local address of the GID index where
// mask has QPAV. check is asked with the state of that very moment, which a
// packet may have changed since the caller looked.
//
// Errors: check's; net.ErrClosed; the system has no socket to send from src.
func (c *Conn) Modify(attr *ib.QPAttr, mask ib.QPAttrMask, src netip.Addr, check func(cur ib.QPState) error) error {
	apply, err := c.way.modification(attr, mask, src)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.way.settle(monotime.Now()) // first: the state may be another one afterwards
	err = check(c.machine.State())
	if c.closed {
		err = net.ErrClosed
	}
	if err != nil {
		c.mu.Unlock()
		return err
	}
	now := monotime.Now()
	apply(now)
	c.pump(now)
	return nil
}

// pump sends what the machine has to send, sets its timer and delivers its
// events. The caller holds mu; pump releases it.
func (c *Conn) pump(now monotime.Time) {
	if c.pumping { // whoever pumps will see the work
		c.mu.Unlock()
		return
	}
	c.drain(now)
	when := min(c.machine.NextTimeout(), c.retry)
	arm := when.Before(c.armed)
	if arm {
		c.armed = when
	}
	c.deliver()
	if arm {
		c.eng.arm(&c.alarm, when)
	}
}

// drain writes what the machine has to send; the caller holds mu and has seen
// that nobody pumps.
func (c *Conn) drain(now monotime.Time) {
	if !c.closed {
		c.pumping, c.retry = true, monotime.Never
		c.way.drain(now)
		c.pumping = false
	}
}

// timeout is the timer heap's call: c is no longer in it.
func (c *Conn) timeout(now monotime.Time) {
	c.mu.Lock()
	c.armed = monotime.Never
	if c.closed {
		c.mu.Unlock()
		return
	}
	wake := false
	if !now.Before(c.machine.NextTimeout()) {
		if c.roce != nil && c.roce.ring != nil {
			wake = c.roce.askFirst(now)
		}
		c.machine.HandleTimeout(now)
	}
	if wake {
		defer c.roce.ring.wakeIfAsleep()
	}
	c.pump(now)
}

// deliver hands out the machine's events, and then calls after, and unlocks.
func (c *Conn) deliver() {
	e, ok := c.machine.PollEvent()
	after := c.after
	c.after = nil
	c.mu.Unlock()
	for ok {
		c.onEvent(e)
		c.mu.Lock()
		e, ok = c.machine.PollEvent()
		c.mu.Unlock()
	}
	if after != nil {
		after()
	}
}

// Close takes the queue pair off the wire. Nothing of it runs afterwards; work
// still posted is left to the caller.
func (c *Conn) Close() {
	c.eng.conns.remove(c)
	c.mu.Lock()
	c.way.settle(monotime.Now())
	c.closed = true
	for c.pumping { // its write is under way: bounded by one system call
		c.mu.Unlock()
		runtime.Gosched()
		c.mu.Lock()
	}
	release := c.way.end()
	counts := c.machine.AppendCounts(nil)
	c.mu.Unlock()
	c.eng.timers.remove(&c.alarm)
	release()
	c.account.add(counts)
}
