// SPDX-License-Identifier: BSD-2-Clause

package core

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"verbena/internal/engine"
)

// CompChannel announces the completions of its queues to an application that waits instead
// of polling: ibv_comp_channel.
type CompChannel struct {
	ctx   *Context
	users atomic.Int32
	ready chan struct{} // holds a token while there is something
	// set before the first put: the channel is of one CQ, and one event stands for all
	single bool

	idle      func() bool // immutable: mayWait
	interrupt func()      // immutable: wake

	turn    atomic.Uint32   // noTurn, awaitsTurn or hasTurn
	reading atomic.Bool     // a goroutine in readUntilEvent reads the network
	done    <-chan struct{} // of the goroutine in readUntilEvent: the end of its context

	mu     sync.Mutex
	events []*CQ
	closed bool
	end    func() bool // ends what makes done wake the goroutine; nil: done does not
}

// States of CompChannel.turn. The goroutine that reads the network counts those that have one.
const (
	noTurn     = iota
	awaitsTurn // a goroutine waits for an event, or for the right to read
	hasTurn    // it was woken for an event, and has not run since
)

// CreateCompChannel creates a completion channel: ibv_create_comp_channel(3).
func (c *Context) CreateCompChannel() (ch *CompChannel, err error) {
	defer func() { c.logCall("ibv_create_comp_channel", err) }()
	if err := c.alive(); err != nil {
		return nil, err
	}
	ch = &CompChannel{ctx: c, ready: make(chan struct{}, 1)}
	ch.idle, ch.interrupt = ch.mayWait, ch.wake
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.alive(); err != nil {
		return nil, err
	}
	c.channels[ch] = struct{}{}
	return ch, nil
}

func (c *CompChannel) put(q *CQ) {
	c.mu.Lock()
	// An alarm may ring while its queue is destroyed, before forget or after it.
	if gone := q.users.Load() < 0; !gone && (!c.single || len(c.events) == 0) {
		c.events = append(c.events, q)
	}
	c.mu.Unlock()
	c.signal()
}

func (c *CompChannel) signal() {
	if c.turn.CompareAndSwap(awaitsTurn, hasTurn) { // first: it may run, and wait again, at once
		c.ctx.eng.NoteDue(1)
	}
	select {
	case c.ready <- struct{}{}:
	default:
	}
	c.wake()
}

// endTurn notes that the goroutine for which the channel has something runs.
func (c *CompChannel) endTurn() {
	if c.turn.Swap(noTurn) == hasTurn {
		c.ctx.eng.NoteDue(-1)
	}
}

// wake ends the sleep of the goroutine in readUntilEvent, if there is one.
func (c *CompChannel) wake() {
	if c.reading.Load() {
		c.ctx.eng.WakeTokenHolder()
	}
}

func (c *CompChannel) forget(q *CQ) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = slices.DeleteFunc(c.events, func(e *CQ) bool { return e == q })
}

// take returns the next event, nil if there is none.
func (c *CompChannel) take() (*CQ, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.events) > 0 {
		q := c.events[0]
		c.events = c.events[:copy(c.events, c.events[1:])]
		if len(c.events) > 0 || c.closed {
			c.signal()
		} else {
			select {
			case <-c.ready: // of a goroutine that is about to wait for it, and then has nothing
				if c.turn.CompareAndSwap(hasTurn, awaitsTurn) {
					c.ctx.eng.NoteDue(-1)
				}
			default:
			}
		}
		return q, nil
	}
	if c.closed {
		c.signal() // for the next waiter
		return nil, fail(syscall.EBADF, "channel", "is closed")
	}
	return nil, nil
}

// Wait blocks until a completion queue on the channel has an event and returns that queue:
// ibv_get_cq_event(3). One goroutine of the process that waits so reads the network.
func (c *CompChannel) Wait(ctx context.Context) (*CQ, error) {
	right := c.ctx.eng.ReadTokens()
	for {
		if q, err := c.take(); q != nil || err != nil {
			return q, err
		}
		var a *engine.ReadToken
		select {
		case a = <-right:
		default:
			if right == nil {
				c.ctx.eng.Wake()
			} else {
				c.ctx.eng.SettleBehindReader()
			}
			c.turn.CompareAndSwap(noTurn, awaitsTurn)
			select {
			case <-ctx.Done():
				c.endTurn()
				return nil, ctx.Err()
			case <-c.ready:
				c.endTurn()
				continue
			case a = <-right:
				c.endTurn()
				a.Yield()
			}
		}
		if q, err := c.readUntilEvent(ctx, a); q != nil || err != nil {
			return q, err
		}
		right = nil
	}
}

// readUntilEvent reads the network until the channel has an event, which it returns. It returns
// neither event nor error if the goroutine is to wait without the right.
func (c *CompChannel) readUntilEvent(ctx context.Context, a *engine.ReadToken) (q *CQ, err error) {
	defer a.Release()
	c.reading.Store(true)
	defer c.reading.Store(false)
	c.watch(ctx)
	a.Begin()
	for waits, ok := true, true; ok; waits = false {
		came := a.Collect(waits)
		if q, err = c.take(); q != nil || err != nil {
			return q, err
		}
		if waits && came == 0 {
			// Those behind it on this processor run first: the next message may be their answer.
			// Spin and Sleep keep the processor, and another thread that took them wakes up late.
			a.LetRun()
		}
		if waits && came == 0 && a.Spin(func() bool {
			others := a.Collect(false) > 0
			if q, err = c.take(); q != nil || err != nil {
				return true
			}
			if others {
				a.Yield()
			}
			return false
		}) {
			return q, err
		}
		if err = ctx.Err(); err != nil {
			return nil, err
		}
		if a.Yield(); runtime.GOMAXPROCS(0) == 1 {
			// Sleep keeps this processor for a while. With more processors the call would only
			// wake another thread.
			a.Gosched()
		}
		ok = a.Sleep(c.idle)
	}
	return nil, nil
}

// watch makes the end of ctx wake the goroutine in readUntilEvent. It goes on afterwards for the
// next Wait with the same context.
func (c *CompChannel) watch(ctx context.Context) {
	done := ctx.Done()
	if done == c.done {
		return
	}
	c.done = done
	var end func() bool
	if done != nil {
		end = context.AfterFunc(ctx, c.interrupt)
	}
	c.setEnd(end)
}

// setEnd replaces end, and ends what it replaces. Once the channel is closed it keeps none.
func (c *CompChannel) setEnd(end func() bool) {
	c.mu.Lock()
	if !c.closed {
		end, c.end = c.end, end
	}
	c.mu.Unlock()
	if end != nil {
		end()
	}
}

// mayWait reports whether the goroutine in readUntilEvent has nothing to return with.
func (c *CompChannel) mayWait() bool {
	select {
	case <-c.done:
		return false
	default:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.events) == 0 && !c.closed
}

// Close removes the channel and makes a waiting Wait return: ibv_destroy_comp_channel(3).
func (c *CompChannel) Close() (err error) {
	defer func() { c.ctx.logCall("ibv_destroy_comp_channel", err) }()
	if err := retire(&c.users, "channel"); err != nil {
		return err
	}
	c.ctx.mu.Lock()
	delete(c.ctx.channels, c)
	c.ctx.mu.Unlock()
	c.close()
	return nil
}

func (c *CompChannel) close() {
	c.mu.Lock()
	c.closed = true
	end := c.end
	c.end = nil
	c.mu.Unlock()
	if end != nil {
		end()
	}
	c.signal()
}
