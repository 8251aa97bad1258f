package mem

import "sync/atomic"

// A gate counts the spans that point into one piece of memory, and lets one
// waiter know when the last is gone. Whoever drains it has first made sure
// that no new span can come (the grant is no longer in its slot).
type gate struct {
	held     atomic.Int64
	draining atomic.Bool
	empty    chan struct{} // capacity 1; written by the last release while draining
}

func newGate() *gate { return &gate{empty: make(chan struct{}, 1)} }

func (g *gate) hold() { g.held.Add(1) }

func (g *gate) release() {
	n := g.held.Add(-1)
	if n > 0 {
		return
	}
	if n < 0 {
		panic("mem: span released twice")
	}
	// drain stores draining before it loads held, we do the reverse: one of
	// the two sees the other.
	if g.draining.Load() {
		select {
		case g.empty <- struct{}{}:
		default:
		}
	}
}

// drain waits until no span is held. A look-up that lost its race with the
// revocation may hold the gate for an instant more, without touching memory.
func (g *gate) drain() {
	g.draining.Store(true)
	for g.held.Load() != 0 {
		<-g.empty
	}
}
