// SPDX-License-Identifier: BSD-2-Clause

package stats

import (
	"testing"
)

// The sums over all processes do not fall when one ends, whether it has a slot or not.
func TestTotalsDoNotFall(t *testing.T) {
	dir := shortDir(t)
	want := uint64(0)
	check := func(when string) {
		t.Helper()
		sum, _, err := Totals(t.Context(), dir)
		if got := sum["roce_a"]["sent_pkts"]; err != nil || got != want {
			t.Errorf("%s: %d packets, want %d, %v", when, got, want, err)
		}
	}
	for i, name := range []string{"77-1", "78-1", "4711"} {
		last := Snapshot{PID: i, Devices: sent("roce_a", uint64(10+i))}
		s, err := Serve(dir, name, func() Snapshot { return last })
		if err != nil {
			t.Fatal(err)
		}
		want += uint64(10 + i)
		check(name + " lives")
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Retire(last); err != nil {
			t.Error(err)
		}
		check(name + " has ended")
	}
}
