// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"verbena/internal/monotime"
)

// A thread that holds the only core of its peer sleeps at once from then on, for a second.
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
		t.Skipf("the system lets no thread choose its cores: %v", err)
	}
	var e Engine
	e.rings.Store(&[]laneRing{})
	for _, held := range []int32{heldMost - 1, heldMost} {
		var s Spin
		s.held.Store(held)
		before := monotime.Now()
		found := s.Wait(&e, func() bool { return true })
		if rests := held == heldMost; found == rests {
			t.Errorf("%d such messages: found %v", held, found)
		} else if until := monotime.Time(s.until.Load()); until.Sub(before) >= onlyRest != rests {
			t.Errorf("%d such messages: rests until %v, begun at %v", held, until, before)
		}
	}
}
