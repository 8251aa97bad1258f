// SPDX-License-Identifier: BSD-2-Clause

package rsocket

import (
	"context"
	"net"
	"os"
	"sync"
	"time"

	"verbena/verbs"
)

// waiter is a place where a goroutine waits for its connection to change: one reads, one writes,
// one shuts a half, one closes.
type waiter struct {
	// guarded by waits.mu
	ready    func() bool // of the goroutine that waits
	asleep   bool        // until wake
	wake     chan struct{}
	deadline time.Time
	timer    *time.Timer
	expired  bool
}

// waits has the waiters of a connection. All need the completions of one queue. The poller waits
// for them, and takes them for all:
//
//	poller ─► Await ─► progress ─► its condition holds: hands over ─► next poller
//	others ─► wake  ◄── their condition holds, or the poller hands over
type waits struct {
	// immutable
	waiters  []*waiter
	progress func()      // takes completions, with mu
	failed   func(error) // the queue has failed; with mu

	mu     sync.Mutex // taken behind the other locks of the connection
	cq     *verbs.CQ  // nil: there is none yet
	poller *waiter    // is in Await of cq; the others sleep
	closed bool       // Close was called
	closer waiter     // goes on behind Close
}

func (s *waits) init(progress func(), failed func(error), waiters ...*waiter) {
	s.progress, s.failed, s.waiters = progress, failed, append(waiters, &s.closer)
	for _, w := range s.waiters {
		w.wake = make(chan struct{}, 1)
	}
}

// check returns why a call fails at once. The caller holds mu.
func (s *waits) check(w *waiter) error {
	switch {
	case s.closed && w != &s.closer:
		return net.ErrClosed
	case w.expired:
		return os.ErrDeadlineExceeded
	}
	return nil
}

// wait blocks until a condition holds. The caller holds mu.
func (s *waits) wait(w *waiter, ready func() bool) (err error) {
	w.ready = ready
	s.progress()
	for {
		if err = s.check(w); err != nil || ready() {
			break
		}
		if s.poller == nil && s.cq != nil {
			s.await(w)
			continue
		}
		w.asleep = true
		s.mu.Unlock()
		<-w.wake
		s.mu.Lock()
		w.asleep = false
	}
	w.ready = nil
	if s.poller == nil {
		s.handOver()
	}
	return err
}

// await waits for completions and takes them.
func (s *waits) await(w *waiter) {
	s.poller = w
	cq := s.cq
	s.mu.Unlock()
	err := cq.Await(context.Background())
	s.mu.Lock()
	s.poller = nil
	if err != nil {
		s.failed(err)
	}
	s.progress()
}

// handOver makes another goroutine the poller. The caller holds mu.
func (s *waits) handOver() {
	for _, w := range s.waiters {
		if w.asleep {
			s.interrupt(w)
			return
		}
	}
}

// notify wakes goroutines whose conditions hold. The caller holds mu.
func (s *waits) notify() {
	for _, w := range s.waiters {
		if w.ready != nil && (w.asleep || w == s.poller) && w.ready() {
			s.interrupt(w)
		}
	}
}

// interrupt has a goroutine look at its condition again. The caller holds mu.
func (s *waits) interrupt(w *waiter) {
	switch {
	case w == s.poller:
		s.cq.Wake()
	case w.asleep:
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

// close makes the calls that wait fail, but for the closer, and reports whether it is the first
// close. The caller holds mu.
func (s *waits) close() bool {
	if s.closed {
		return false
	}
	s.closed = true
	for _, w := range s.waiters {
		if w.timer != nil {
			w.timer.Stop()
		}
		s.interrupt(w)
	}
	return true
}

func (s *waits) setDeadlines(t time.Time, waiters ...*waiter) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return net.ErrClosed
	}
	for _, w := range waiters {
		s.setDeadline(w, t)
	}
	return nil
}

func (s *waits) setDeadline(w *waiter, t time.Time) {
	w.deadline, w.expired = t, false
	if w.timer != nil {
		w.timer.Stop() // a timer that has fired finds another deadline
	}
	if !t.IsZero() {
		s.expire(w)
	}
}

// expire ends calls whose deadline has come, else sets the timer for it.
func (s *waits) expire(w *waiter) {
	left := time.Until(w.deadline)
	switch {
	case left <= 0:
		w.expired = true
		s.interrupt(w)
	case w.timer == nil:
		w.timer = time.AfterFunc(left, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if !w.deadline.IsZero() {
				s.expire(w)
			}
		})
	default:
		w.timer.Reset(left)
	}
}
