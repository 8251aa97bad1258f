// SPDX-License-Identifier: BSD-2-Clause

package mem

import "sync/atomic"

// A drainGate counts the spans that point into one piece of memory, and lets one
// waiter know when the last is gone. The draining caller has first made sure
// that no new span can come (the entry is no longer in its slot). It is
// drained once.
type drainGate struct {
	held   atomic.Int64
	waiter atomic.Pointer[chan struct{}]
}

func (g *drainGate) hold() { g.held.Add(1) }

func (g *drainGate) release() {
	if n := g.held.Add(-1); n <= 0 {
		g.last(n)
	}
}

func (g *drainGate) last(n int64) {
	if n < 0 {
		panic("mem: span released twice")
	}
	// drain stores waiter before it loads held, we do the reverse: one of the
	// two sees the other.
	if w := g.waiter.Load(); w != nil {
		select {
		case *w <- struct{}{}:
		default: // notified already: it looks again
		}
	}
}

// drain waits until no span is held. A look-up that lost its race with the
// revocation may hold the gate for an instant more, without touching memory.
func (g *drainGate) drain() {
	if g.held.Load() == 0 {
		return
	}
	wake := make(chan struct{}, 1)
	g.waiter.Store(&wake)
	for g.held.Load() != 0 {
		<-wake
	}
}
