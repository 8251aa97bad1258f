// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/qp"
	"verbena/internal/queue"
)

// Conn is a queue pair as the engine sees it: a machine, the lock that
// serialises it and its transport. The zero value is not usable.
type Conn struct {
	// immutable after the engine has made it
	eng       *Engine
	counters  *DeviceCounters
	qpn       ib.QPN
	onEvent   func(ib.EventType) // called without locks held
	transport Transport          // the Conn is part of it
	immediate Immediate          // transport as an Immediate; nil if it is none
	joiner    Joiner             // transport as a Joiner; nil if it is none
	lane      *Lane

	mu  *sync.Mutex // own, or shared with other Conns; immutable
	own sync.Mutex

	// guarded by mu
	machine qp.Machine
	pumping bool
	more    bool // there was something to send since pumping was set
	closed  bool
	after   func()        // DeliverUnlock calls it, once
	armed   monotime.Time // when the timer heap will wake it, at the latest
	retry   monotime.Time // when to flush unwritten output again; Never if there is none
	short   *queue.Short
	answers answers

	Near Near // may be used without a lock

	alarm Alarm
	cause atomic.Pointer[Cause] // of the last event
}

// ConnOptions configure a Conn.
type ConnOptions struct {
	Counters *DeviceCounters    // counts for its machine
	OnEvent  func(ib.EventType) // called without locks, with each event
	Lock     *sync.Mutex        // serialises it together with others; nil: it has its own
	Lane     *Lane              // of its completion queues; nil: FirstLane
}

// NewConn gives a queue pair a number, and makes c, which t embeds, findable by it. machine is
// called with the number.
func (e *Engine) NewConn(c *Conn, t Transport, o ConnOptions,
	machine func(ib.QPN) qp.Machine) error {
	e.Settle()
	lane := o.Lane
	if lane == nil {
		lane = e.FirstLane()
	}
	qpn, ok := e.conns.reserve(lane.Part())
	if !ok {
		return e.errNumbers()
	}
	c.counters, c.qpn, c.onEvent = o.Counters, qpn, o.OnEvent
	c.init(e, t, o.Lock)
	c.lane = lane
	c.machine = machine(qpn)
	e.conns.publish(c)
	return nil
}

// NewNumberlessConn makes c, which t embeds, a connection without a queue pair number. It is locked
// and woken as others are.
func (e *Engine) NewNumberlessConn(c *Conn, t Transport, machine qp.Machine) {
	c.init(e, t, nil)
	c.machine = machine
}

func (c *Conn) init(e *Engine, t Transport, mu *sync.Mutex) {
	c.eng, c.transport, c.lane = e, t, e.FirstLane()
	c.joiner, _ = t.(Joiner)
	if c.immediate, _ = t.(Immediate); c.immediate != nil {
		c.short = &queue.Short{}
	}
	if c.mu = mu; mu == nil {
		c.mu = &c.own
	}
	c.alarm = NewMovingAlarm(c.timeout, c.deadlineMoved)
	c.armed, c.retry = monotime.Never, monotime.Never
}

// QPN returns the queue pair's number.
func (c *Conn) QPN() ib.QPN { return c.qpn }

// Transport returns the transport that embeds c.
func (c *Conn) Transport() Transport { return c.transport }

// Lock serialises access to the machine and its queues. Post under it, then
// call SubmitUnlock.
func (c *Conn) Lock() { c.mu.Lock() }

// Unlock ends Lock if nothing is to be sent.
func (c *Conn) Unlock() { c.mu.Unlock() }

// Machine returns the protocol machine; the caller holds the lock.
func (c *Conn) Machine() qp.Machine { return c.machine }

// ShortLimit returns the size in bytes of the largest message with an opcode that PostShort takes,
// 0 if the transport has no such messages. It takes no lock.
func (c *Conn) ShortLimit(op ib.WROpcode) int {
	if c.immediate == nil {
		return 0
	}
	return c.immediate.ShortLimit(op)
}

// Short returns a message for PostShort, whose fields have old values. The caller holds the lock,
// and ShortLimit was not 0.
func (c *Conn) Short() *queue.Short { return c.short }

// PostShort sends the message that Short returned, if that is possible at once, and reports whether
// it was. The caller holds the lock, and keeps it. SubmitUnlock is to follow unless all messages
// were WRITEs.
func (c *Conn) PostShort() bool { return c.immediate.PostShort(c.short) }

// SubmitUnlock notifies the machine of so many posted work requests and sends its output. It
// releases the lock, which the caller holds.
func (c *Conn) SubmitUnlock(posted int) {
	if c.immediate != nil && c.immediate.Submit() {
		c.mu.Unlock()
		return
	}
	now := monotime.Now()
	c.transport.NotePost()
	c.machine.Doorbell(now)
	if c.postponeAnswer(now, posted) {
		c.mu.Unlock()
		return
	}
	if c.joinAnswers() {
		c.mu.Unlock()
		c.lane.sendAnswers()
		return
	}
	c.PumpUnlock(now)
}

// SubmitReceivesUnlock notifies the machine of posted receives. They send nothing and do not answer
// a peer, so delayed acknowledgements stay delayed. It releases the lock, which the caller holds.
func (c *Conn) SubmitReceivesUnlock() {
	if c.machine.State() == ib.QPErr { // they are flushed
		c.SubmitUnlock(0)
		return
	}
	c.mu.Unlock()
}

// Modify applies attributes. src is the local address of the GID index where mask has QPAV. check
// is called with the state at that moment: a packet may have changed it since the caller looked.
//
// Errors: check's; net.ErrClosed; the system has no socket to send from src.
func (c *Conn) Modify(attr *ib.QPAttr, mask ib.QPAttrMask, src netip.Addr,
	check func(cur ib.QPState) error) error {
	apply, err := c.transport.PrepareModify(attr, mask, src)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.sendAll(monotime.Now()) // first: the state may be another one afterwards
	err = check(c.machine.State())
	if c.closed {
		err = net.ErrClosed
	}
	now := monotime.Now()
	if err != nil {
		c.PumpUnlock(now)
		return err
	}
	apply(now)
	c.PumpUnlock(now)
	return nil
}

// Close takes the queue pair off the wire. Nothing of it runs afterwards; work
// still posted is left to the caller.
func (c *Conn) Close() {
	c.eng.conns.remove(c)
	c.mu.Lock()
	c.sendAll(monotime.Now())
	c.closed = true
	c.AwaitPump()
	release := c.transport.Detach()
	counts := c.machine.AppendCounts(nil)
	c.mu.Unlock()
	c.eng.timers.remove(&c.alarm)
	release()
	c.counters.add(counts)
}
