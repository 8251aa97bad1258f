// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"testing"

	"verbena/internal/engine/policy"
	"verbena/internal/monotime"
)

// A thread that polls gives the core away after many looks that found nothing, and begins anew.
// With rings a look is one of many polls.
func TestPollerGivesWay(t *testing.T) {
	for _, c := range []struct {
		name  string
		rings bool
		polls int // at least, until it gives way
	}{
		{"sockets", false, yieldLooks},
		{"rings", true, (yieldLooks - 1) * int(policy.SocketPolls)},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, in := stoppedWithRing(t, func(*Engine) bool { return false })
			if !c.rings {
				e.RemoveRing((*e.rings.Load())[0].Ring)
			}
			lane := e.FirstLane()
			lane.way.vain.Store(0)
			polls := func() (n int) {
				for n = 1; ; n++ {
					lane.Poll()
					had := lane.way.vain.Load()
					if lane.GiveWay(); lane.way.vain.Load() < had {
						return n
					}
				}
			}
			for range 2 {
				if n := polls(); n < c.polls {
					t.Errorf("gave way after %d polls, want %d at least", n, c.polls)
				}
			}
			for range c.polls - 1 {
				lane.Poll()
			}
			for in.came = 1; in.came > 0; {
				lane.Poll()
			}
			if n := lane.way.vain.Load(); n != 0 {
				t.Errorf("%d looks in vain counted after a message", n)
			}
		})
	}
}

// A yield that costs a time slice is not repeated soon: a thread that computes has the core.
func TestPollerKeepsItsSlices(t *testing.T) {
	var g giveWay
	at := monotime.Time(monotime.Second)
	g.yielded(at, at.Add(lostSlice-1))
	if !g.due(at) {
		t.Error("a short yield ends yields")
	}
	at = at.Add(lostSlice)
	g.yielded(at.Add(-lostSlice), at)
	if g.due(at.Add(yieldRest - 1)) {
		t.Error("a lost slice is followed by another yield")
	}
	if !g.due(at.Add(yieldRest)) {
		t.Error("yields do not begin again")
	}
}
