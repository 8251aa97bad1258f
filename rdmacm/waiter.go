// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"verbena/internal/engine"
	"verbena/internal/monotime"
)

// waiter is the right to read MADs for goroutines that wait for events. One goroutine has it at a
// time: it sleeps until MADs come, reads them, serves the manager, and leaves with its own event.
// The others wait for their events, or for the right. So a MAD wakes the goroutine that waits for
// it, and the manager's goroutine has no part.
//
// The waiter's epoll set, those of Watch and that of the manager's goroutine all have the
// descriptor by which MADs come. The kernel wakes the first of them that a thread waits for
// (portshare.Member.Watch). So a thread that leaves its wait hands over nothing. A woken thread
// must read. If it jumps out of a signal handler, its MADs wait for the next MAD or its next wait.
type waiter struct {
	bell *engine.Bell // immutable after waiters
	free chan *waiter // immutable after waiters: holds the waiter while it is free
}

var (
	theWaiter  waiter
	openWaiter sync.Once

	waiterSets []int                   // guarded by managerMu: of Watch
	serving    atomic.Pointer[manager] // theManager, for threads that wait
)

// waiters returns the channel from which a goroutine receives the right. It is nil if the system
// has no such descriptors.
func waiters() <-chan *waiter {
	openWaiter.Do(func() {
		bell, err := engine.NewBell()
		if err != nil {
			return
		}
		if err := Watch(bell.FD()); err != nil {
			_ = bell.Close() // nothing was written
			return
		}
		w := &theWaiter
		w.bell, w.free = bell, make(chan *waiter, 1)
		w.free <- w
	})
	return theWaiter.free
}

// wait serves the manager until the channel has an event or ctx ends. It returns the right, unless
// the application has closed the descriptors.
func (w *waiter) wait(ctx context.Context, c *EventChannel) {
	if ctx.Done() != nil {
		defer context.AfterFunc(ctx, w.bell.Ring)()
	}
	for {
		var came bool
		var err error
		c.asleep.Store(true)
		if c.empty() && ctx.Err() == nil {
			came, err = w.bell.Wait(monotime.Never)
		}
		c.asleep.Store(false)
		if err != nil {
			return
		}
		if came { // also if there is an event: no other thread was woken for these MADs
			Serve()
		}
		if !c.empty() || ctx.Err() != nil {
			break
		}
		runtime.Gosched() // other goroutines may have events, and the wait keeps this processor
	}
	w.free <- w
}

// Watch makes an epoll set readable when messages of connection managers have come, for a program
// with an event loop of its own: see NewEventChannelTo. It then calls Serve. The kernel wakes a
// thread that waits for the set instead of one of the package's. The set stays open as long as the
// process. Watch has an effect on Linux, for RoCE devices; elsewhere the package reads by itself.
func Watch(epoll int) error {
	managerMu.Lock()
	defer managerMu.Unlock()
	waiterSets = append(waiterSets, epoll)
	if theManager == nil {
		return nil
	}
	if s, ok := theManager.svc.(madSource); ok {
		if err := s.WatchMADs(epoll); err != nil {
			waiterSets = slices.DeleteFunc(waiterSets, func(o int) bool { return o == epoll })
			return err
		}
	}
	return nil
}

// Serve reads the messages that have come to a set of Watch, and raises their events.
func Serve() {
	if m := serving.Load(); m != nil {
		m.take()
	}
}
