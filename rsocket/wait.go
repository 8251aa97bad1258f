// SPDX-License-Identifier: BSD-2-Clause

package rsocket

import (
	"context"
	"net"
	"os"
	"time"
)

// waiter is a place where a goroutine waits for the stream to change: one reads, one writes, one
// shuts a half, one closes. All need the completions of one queue. The poller waits for them, and
// takes them for all:
//
//	poller ─► Await ─► progress ─► its condition holds: hands over ─► next poller
//	others ─► wake  ◄── their condition holds, or the poller hands over
type waiter struct {
	// guarded by Conn.mu
	ready    func() bool // of the goroutine that waits
	asleep   bool        // until wake
	wake     chan struct{}
	deadline time.Time
	timer    *time.Timer
	expired  bool
}

func (c *Conn) waiters() [4]*waiter {
	return [...]*waiter{&c.reader, &c.writer, &c.shutter, &c.closer}
}

// check returns why a call fails at once. The caller holds mu.
func (c *Conn) check(w *waiter) error {
	switch {
	case c.closed && w != &c.closer:
		return net.ErrClosed
	case w.expired:
		return os.ErrDeadlineExceeded
	}
	return nil
}

// wait blocks until a condition holds. The caller holds mu.
func (c *Conn) wait(w *waiter, ready func() bool) (err error) {
	w.ready = ready
	c.progress()
	for {
		if err = c.check(w); err != nil || ready() {
			break
		}
		if c.poller == nil {
			c.await(w)
			continue
		}
		w.asleep = true
		c.mu.Unlock()
		<-w.wake
		c.mu.Lock()
		w.asleep = false
	}
	w.ready = nil
	if c.poller == nil {
		c.handOver()
	}
	return err
}

// await waits for completions and takes them.
func (c *Conn) await(w *waiter) {
	c.poller = w
	c.mu.Unlock()
	err := c.cq.Await(context.Background())
	c.mu.Lock()
	c.poller = nil
	if err != nil && !c.gone {
		c.stream.Fail(err)
	}
	c.progress()
}

// handOver makes another goroutine the poller.
func (c *Conn) handOver() {
	for _, w := range c.waiters() {
		if w.asleep {
			w.interrupt(c)
			return
		}
	}
}

// notify wakes goroutines whose conditions hold. The caller holds mu.
func (c *Conn) notify() {
	for _, w := range c.waiters() {
		if w.ready != nil && (w.asleep || w == c.poller) && w.ready() {
			w.interrupt(c)
		}
	}
}

// interrupt has a goroutine look at its condition again. The caller holds c.mu.
func (w *waiter) interrupt(c *Conn) {
	switch {
	case w == c.poller:
		c.cq.Wake()
	case w.asleep:
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

func (c *Conn) setDeadlines(t time.Time, waiters ...*waiter) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.fail("set", net.ErrClosed)
	}
	for _, w := range waiters {
		c.setDeadline(w, t)
	}
	return nil
}

func (c *Conn) setDeadline(w *waiter, t time.Time) {
	w.deadline, w.expired = t, false
	if w.timer != nil {
		w.timer.Stop() // a timer that has fired finds another deadline
	}
	if !t.IsZero() {
		c.expire(w)
	}
}

// expire ends calls whose deadline has come, else sets the timer for it.
func (c *Conn) expire(w *waiter) {
	left := time.Until(w.deadline)
	switch {
	case left <= 0:
		w.expired = true
		w.interrupt(c)
	case w.timer == nil:
		w.timer = time.AfterFunc(left, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			if !w.deadline.IsZero() {
				c.expire(w)
			}
		})
	default:
		w.timer.Reset(left)
	}
}
