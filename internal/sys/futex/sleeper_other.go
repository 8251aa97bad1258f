// SPDX-License-Identifier: BSD-2-Clause

//go:build !linux

package futex

import (
	"runtime"
	"sync"
	"time"
)

// Sleeper is one goroutine's sleep, which others may end. The zero Sleeper is ready.
type Sleeper struct {
	once  sync.Once
	ended chan struct{} // has room for one
	timer *time.Timer   // of the goroutine that sleeps
}

func (s *Sleeper) begin() {
	s.ended, s.timer = make(chan struct{}, 1), time.NewTimer(time.Hour)
}

// Wait sleeps until d has passed, or Wake was called since the last Wait returned.
func (s *Sleeper) Wait(d time.Duration) {
	s.once.Do(s.begin)
	s.timer.Reset(d)
	select {
	case <-s.timer.C:
	case <-s.ended:
	}
}

// Wake makes the current or the next Wait return.
func (s *Sleeper) Wake() {
	s.once.Do(s.begin)
	select {
	case s.ended <- struct{}{}:
	default:
	}
}

// Yield gives the core to another goroutine.
func Yield() { runtime.Gosched() }

// Sleep sleeps for d at least.
func Sleep(d time.Duration) { time.Sleep(d) }
