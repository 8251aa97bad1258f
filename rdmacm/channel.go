// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
)

// EventChannel receives the events of identifiers: rdma_event_channel. A channel may serve any
// number of identifiers.
type EventChannel struct {
	ready  chan struct{} // holds a token while there is something
	taker  func(*Event)  // immutable; nil for Get
	asleep atomic.Bool   // a goroutine in Get sleeps by the waiter

	mu     sync.Mutex
	events []*Event
	closed bool
}

// NewEventChannel returns an empty channel: rdma_create_event_channel(3).
func NewEventChannel() *EventChannel { return &EventChannel{ready: make(chan struct{}, 1)} }

// NewEventChannelTo returns a channel that gives each event to f as soon as it arrives, instead of
// keeping it for Get: for a program with an event loop of its own. Calls come one at a time and in
// order, on any goroutine, and none after Close. f must not block, nor call the package but for
// Event.ID.Destroy of an identifier that a ConnectRequest brought.
//
// When Destroy of an ID returns, f has been called for the last time with an event of it.
// Identifiers of requests belong to f from then on.
func NewEventChannelTo(f func(*Event)) *EventChannel { return &EventChannel{taker: f} }

// Get waits for the next event: rdma_get_cm_event(3). It returns ctx's error if
// ctx ends first, EBADF once the channel is closed. One goroutine of the process that waits so
// reads the connection manager's messages.
func (c *EventChannel) Get(ctx context.Context) (*Event, error) {
	for {
		if ev, err := c.take(); ev != nil || err != nil {
			return ev, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.ready:
		case w := <-waiters():
			w.wait(ctx, c)
		}
	}
}

// empty reports whether Get has nothing to return with.
func (c *EventChannel) empty() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.events) == 0 && !c.closed
}

// TryGet returns the next event if there is one, else nil.
func (c *EventChannel) TryGet() *Event {
	ev, _ := c.take()
	return ev
}

func (c *EventChannel) take() (*Event, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.events) > 0 {
		ev := c.events[0]
		c.events = slices.Delete(c.events, 0, 1)
		if len(c.events) > 0 {
			c.token()
		}
		return ev, nil
	}
	if c.closed {
		c.token() // for the next waiter
		return nil, fail(syscall.EBADF, "channel", "is closed")
	}
	return nil, nil
}

func (c *EventChannel) put(evs ...*Event) {
	c.mu.Lock()
	switch {
	case c.closed:
	case c.taker != nil:
		for _, ev := range evs {
			c.taker(ev)
		}
	default:
		c.events = append(c.events, evs...)
	}
	c.mu.Unlock()
	c.signal()
}

// token wakes a goroutine in Get that does not sleep by the waiter.
func (c *EventChannel) token() {
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

// signal wakes all.
func (c *EventChannel) signal() {
	c.token()
	if c.asleep.Load() {
		theWaiter.bell.Ring()
	}
}

// remove takes out the events for which match holds, and returns them.
func (c *EventChannel) remove(match func(*Event) bool) (out []*Event) {
	if c.taker != nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = slices.DeleteFunc(c.events, func(ev *Event) bool {
		if match(ev) {
			out = append(out, ev)
			return true
		}
		return false
	})
	return out
}

// Close ends the channel and makes a waiting Get return: rdma_destroy_event_channel(3). Identifiers
// on it go on without events; destroy them first.
func (c *EventChannel) Close() {
	c.mu.Lock()
	c.closed = true
	c.events = nil
	c.mu.Unlock()
	c.signal()
}
