// SPDX-License-Identifier: BSD-2-Clause

package futex

import (
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Sleeper is one goroutine's sleep, which others may end. The zero Sleeper is ready.
type Sleeper struct {
	state atomic.Uint32 // the futex
	limit unix.Timespec // of the goroutine that sleeps
}

// States of a Sleeper.
const (
	awake  = iota
	asleep // a thread waits for the state to change, or is about to
	ended  // the current sleep is over, or the next one does not begin
)

// Wait sleeps until d has passed, or Wake was called since the last Wait returned.
// A signal may end it sooner.
func (s *Sleeper) Wait(d time.Duration) {
	if d > 0 && s.state.CompareAndSwap(awake, asleep) {
		s.limit = unix.NsecToTimespec(int64(d))
		s.block()
	}
	s.state.Store(awake)
}

// Wake makes the current or the next Wait return.
func (s *Sleeper) Wake() {
	if s.state.Swap(ended) == asleep {
		s.unblock()
	}
}

// Yield gives the core to another thread.
func Yield() {
	runtime.Gosched()
	unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
}

// Sleep sleeps for d at least.
func Sleep(d time.Duration) {
	var s Sleeper
	for end := time.Now().Add(d); d > 0; d = time.Until(end) {
		s.Wait(d)
	}
}
