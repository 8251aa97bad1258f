// SPDX-License-Identifier: BSD-2-Clause

package futex

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Nap is one goroutine's sleep, which others may end. The zero Nap is ready.
type Nap struct {
	state atomic.Uint32 // the futex
	limit unix.Timespec // of the goroutine that sleeps
}

// States of a Nap.
const (
	awake  = iota
	asleep // a thread waits for the state to change, or is about to
	ended  // the current sleep is over, or the next one does not begin
)

// For sleeps until d has passed, or End was called since the last For returned.
// A signal may end it sooner.
func (n *Nap) For(d time.Duration) {
	if d > 0 && n.state.CompareAndSwap(awake, asleep) {
		n.limit = unix.NsecToTimespec(int64(d))
		n.wait()
	}
	n.state.Store(awake)
}

// End makes the current or the next For return.
func (n *Nap) End() {
	if n.state.Swap(ended) == asleep {
		n.wake()
	}
}

// Sleep sleeps for d at least.
func Sleep(d time.Duration) {
	var n Nap
	for end := time.Now().Add(d); d > 0; d = time.Until(end) {
		n.For(d)
	}
}
