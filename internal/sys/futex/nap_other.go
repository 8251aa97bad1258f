// SPDX-License-Identifier: BSD-2-Clause

//go:build !linux

package futex

import (
	"sync"
	"time"
)

// Nap is one goroutine's sleep, which others may end. The zero Nap is ready.
type Nap struct {
	once  sync.Once
	ended chan struct{} // has room for one
	timer *time.Timer   // of the goroutine that sleeps
}

func (n *Nap) begin() {
	n.ended, n.timer = make(chan struct{}, 1), time.NewTimer(time.Hour)
}

// For sleeps until d has passed, or End was called since the last For returned.
func (n *Nap) For(d time.Duration) {
	n.once.Do(n.begin)
	n.timer.Reset(d)
	select {
	case <-n.timer.C:
	case <-n.ended:
	}
}

// End makes the current or the next For return.
func (n *Nap) End() {
	n.once.Do(n.begin)
	select {
	case n.ended <- struct{}{}:
	default:
	}
}

// Sleep sleeps for d at least.
func Sleep(d time.Duration) { time.Sleep(d) }
