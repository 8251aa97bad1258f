// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"sync/atomic"

	"verbena/internal/monotime"
	"verbena/internal/sys/futex"
)

// giveWay has a thread of a Go program that polls and finds nothing let another run now and then:
// the one with the answer may wait for this core. Those of C programs do so themselves, see
// cabi/include/giveway.h.
type giveWay struct {
	vain  atomic.Uint32 // looks at sockets since something came, or since the last yield was due
	until atomic.Int64  // no yield before
}

// A thread yields after yieldLooks looks at sockets that found nothing: some 60 µs where there are
// only sockets, and 4,096 polls where there are rings. A yield that took lostSlice went to a thread
// that computes, and there is none for yieldRest then: each would cost another slice.
const (
	yieldLooks = 64
	lostSlice  = 1500 * monotime.Microsecond
	yieldRest  = 32 * monotime.Millisecond
)

// due reports whether to yield, and begins to count anew.
func (g *giveWay) due(now monotime.Time) bool {
	g.vain.Store(0)
	return int64(now) >= g.until.Load()
}

// yielded takes note of a yield.
func (g *giveWay) yielded(before, after monotime.Time) {
	if after.Sub(before) >= lostSlice {
		g.until.Store(int64(after.Add(yieldRest)))
	}
}

// GiveWay is called after a poll that found no completion. It may take a time slice.
func (l *Lane) GiveWay() {
	if l.way.vain.Load() < yieldLooks {
		return
	}
	if before := monotime.Now(); l.way.due(before) {
		futex.Yield()
		l.way.yielded(before, monotime.Now())
	}
}
