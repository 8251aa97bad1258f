// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"runtime"
	"sync"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/qp"
)

// These methods are for the transports. They are called with the Conn locked, unless they
// say otherwise.

// Engine returns the engine that made c. It takes no lock.
func (c *Conn) Engine() *Engine { return c.eng }

// Mutex returns the lock, for code that serves more than Conns.
func (c *Conn) Mutex() *sync.Mutex { return c.mu }

// SetMachine replaces the machine.
func (c *Conn) SetMachine(m qp.Machine) { c.machine, c.answers.received = m, m.Received() }

// Closed reports whether Close was called.
func (c *Conn) Closed() bool { return c.closed }

// Pumping reports whether a thread flushes output.
func (c *Conn) Pumping() bool { return c.pumping }

// AwaitPump waits until no thread flushes output. With a Joint that includes the output of up to
// maxJoint Conns, in several writes. It unlocks c meanwhile.
func (c *Conn) AwaitPump() { c.AwaitUnless(func() bool { return !c.pumping }) }

// AwaitUnless waits until done, which is called with c locked. It unlocks c meanwhile.
func (c *Conn) AwaitUnless(done func() bool) {
	for !done() {
		c.mu.Unlock()
		runtime.Gosched()
		c.mu.Lock()
	}
}

// PumpUnlock sends the machine's output, sets its timer and delivers its events. It releases the
// lock.
func (c *Conn) PumpUnlock(now monotime.Time) {
	if c.pumping { // the pumping thread sends everything: it looks again before it ends
		c.more = true
		c.answersLeave()
		c.mu.Unlock()
		return
	}
	c.Flush(now)
	c.endPumpUnlock()
}

// endPumpUnlock sets the machine's timer and delivers its events. It releases the lock.
func (c *Conn) endPumpUnlock() {
	c.answerWritten()
	when := min(c.machine.NextTimeout(), c.retry)
	arm := when.Before(c.armed)
	if arm {
		c.armed = when
	}
	c.DeliverUnlock()
	if arm {
		c.eng.Arm(&c.alarm, when)
	}
}

// Flush sends the machine's output; no thread pumps.
func (c *Conn) Flush(now monotime.Time) {
	if !c.closed {
		c.beginPump()
		c.transport.FlushOutput(now)
		c.pumping = false
	}
}

// beginPump makes the caller the pumping thread, which sends everything.
func (c *Conn) beginPump() {
	c.pumping, c.more, c.retry = true, false, monotime.Never
	c.answersLeave()
}

// RetryAt makes the engine call FlushOutput, its caller, again at a time.
func (c *Conn) RetryAt(when monotime.Time) { c.retry = when }

// ArmedBy reports whether the timer heap wakes c at a time, or before.
func (c *Conn) ArmedBy(when monotime.Time) bool { return !when.Before(c.armed) }

// After returns the function that DeliverUnlock is to call.
func (c *Conn) After() func() { return c.after }

// SetAfter makes DeliverUnlock call f, once and without the lock, after the events.
func (c *Conn) SetAfter(f func()) { c.after = f }

// timeout is the timer heap's call: c is no longer in it.
func (c *Conn) timeout(now monotime.Time) {
	c.mu.Lock()
	c.armed = monotime.Never
	if c.closed {
		c.mu.Unlock()
		return
	}
	if !now.Before(c.machine.NextTimeout()) {
		if g, ok := c.transport.(TimeoutGuard); ok {
			if after := g.BeforeTimeout(now); after != nil {
				defer after()
			}
		}
		c.machine.HandleTimeout(now)
	}
	c.PumpUnlock(now)
}

// deadlineMoved returns the deadline of c, whose alarm is no longer in the timer heap. ok is false,
// and the deadline now, if it has come.
func (c *Conn) deadlineMoved(now monotime.Time) (to monotime.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	when := min(c.machine.NextTimeout(), c.retry)
	if c.closed || !now.Before(when) {
		return now, false
	}
	c.armed = when
	return when, true
}

// DeliverUnlock releases the lock, hands out the machine's events, and then calls the
// function of SetAfter.
func (c *Conn) DeliverUnlock() {
	e, ok := c.machine.PollEvent()
	if ok {
		c.NoteCause()
	}
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

// OnEvent hands an event to the application. It is called without the lock.
func (c *Conn) OnEvent(e ib.EventType) { c.onEvent(e) }

// CountPast adds the counts of a machine of c that SetMachine replaced.
func (c *Conn) CountPast(counts []uint64) { c.counters.add(counts) }

// End closes a Conn of NewNumberlessConn: nothing of it runs afterwards.
func (c *Conn) End() { c.closed = true }

// EndTimer takes the timer of such a Conn out for good. It is called without the lock.
func (c *Conn) EndTimer() { c.eng.timers.remove(&c.alarm) }
