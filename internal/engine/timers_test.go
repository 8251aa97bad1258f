// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"math/rand/v2"
	"slices"
	"testing"

	"verbena/internal/monotime"
)

// TestTimersAgainstList runs random operations on the heap and on a plain list
// of deadlines.
func TestTimersAgainstList(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	tm := newTimers()
	const n = 40
	conns, want := make([]*Alarm, n), make([]monotime.Time, n)
	for i := range conns {
		conns[i], want[i] = &Alarm{index: timerIdle}, monotime.Never
	}
	for range 20000 {
		i := rng.IntN(n)
		switch rng.IntN(3) {
		case 0, 1:
			when := monotime.Time(rng.IntN(1000))
			earlier := when < slices.Min(want)
			if got := tm.set(conns[i], when); got != earlier {
				t.Fatalf("set(%d) reports %v, first deadline was %d", when, got, slices.Min(want))
			}
			want[i] = min(want[i], when) // never later than asked for
		case 2:
			now := monotime.Time(rng.IntN(1000))
			c := tm.expired(now)
			if first := slices.Min(want); (c != nil) != (first <= now) {
				t.Fatalf("expired(%d) = %v, first deadline %d", now, c, first)
			} else if c != nil {
				at := slices.Index(conns, c)
				if want[at] != first {
					t.Fatalf("woke the one of %d, not of %d", want[at], first)
				}
				want[at] = monotime.Never
			}
		}
		if tm.deadline() != slices.Min(want) || tm.due(500) != (slices.Min(want) <= 500) {
			t.Fatalf("deadline %d, want %d", tm.deadline(), slices.Min(want))
		}
	}
}

// TestTimerOfClosedConn sets the timer of a connection that was closed
// meanwhile: a pump that was under way does that.
func TestTimerOfClosedConn(t *testing.T) {
	tm := newTimers()
	idle, armed := &Alarm{index: timerIdle}, &Alarm{index: timerIdle}
	tm.set(armed, 5)
	for _, c := range []*Alarm{armed, idle} {
		tm.remove(c)
		if tm.set(c, 3) || tm.deadline() != monotime.Never {
			t.Errorf("a closed connection has a timer again: %d", tm.deadline())
		}
	}
}
