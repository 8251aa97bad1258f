// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"verbena/internal/monotime"
)

// A thread that holds the only core of its peer sleeps at once from then on. It is no matter to a
// process without peers on its host.
func TestSpinLeavesTheOnlyCore(t *testing.T) {
	runtime.LockOSThread() // and ends with the thread
	var all, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	for i := range 64 * len(all) {
		if all.IsSet(i) {
			one.Set(i)
			break
		}
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		rings []laneRing
	}{{"no ring", nil}, {"a ring", make([]laneRing, 1)}} {
		var e Engine
		e.rings.Store(&c.rings)
		var s Spin
		s.held.Store(heldMost - 1)
		before := monotime.Now()
		s.vain.Store(int64(before.Add(monotime.Second))) // however long the test is held up
		found := s.Wait(&e, func() bool { return true })
		if peer := len(c.rings) > 0; found == peer {
			t.Errorf("%s: found %v", c.name, found)
		} else if rests := monotime.Time(s.until.Load()).Sub(before) >= onlyRest; rests != peer {
			t.Errorf("%s: rests %v", c.name, rests)
		}
	}
}
