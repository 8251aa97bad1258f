// SPDX-License-Identifier: BSD-2-Clause

package stats

import (
	"math"
	"sync/atomic"
	"time"

	"verbena/internal/sys/futex"
)

const (
	// shortestPause is the time between two snapshots that are kept for the case that the process
	// is killed.
	shortestPause = time.Second
	// keepShare bounds the share of time that these snapshots take: of many queue pairs they are
	// slow.
	keepShare = 100
)

// recorder keeps a snapshot some time after the process has done something. While the process does
// nothing it sleeps without a limit. Its sleep is a futex: applications close all descriptors.
type recorder struct {
	sleeper futex.Sleeper
	stirred atomic.Bool // since the last snapshot
	waiting atomic.Bool // for stirred
	ended   atomic.Bool
}

func (r *recorder) run(shortest time.Duration, keep func() Snapshot) {
	r.stirred.Store(true) // something has opened the server
	for pause := shortest; ; {
		for !r.stirred.Load() && !r.ended.Load() {
			r.waiting.Store(true)
			if !r.stirred.Load() {
				r.sleeper.Wait(math.MaxInt64)
			}
			r.waiting.Store(false)
		}
		r.sleep(pause)
		if r.ended.Load() {
			return
		}
		r.stirred.Store(false)
		began := time.Now()
		keep()
		pause = max(shortest, keepShare*time.Since(began))
	}
}

// sleep sleeps for d, or until end.
func (r *recorder) sleep(d time.Duration) {
	for end := time.Now().Add(d); d > 0 && !r.ended.Load(); d = time.Until(end) {
		r.sleeper.Wait(d)
	}
}

// stir wakes the recorder if it waits for that.
func (r *recorder) stir() {
	if r.stirred.Load() {
		return
	}
	r.stirred.Store(true)
	if r.waiting.Load() {
		r.sleeper.Wake()
	}
}

// end makes run return.
func (r *recorder) end() {
	r.ended.Store(true)
	r.sleeper.Wake()
}
