// SPDX-License-Identifier: BSD-2-Clause

package engine

import "testing"

// A poll that counts for n passes every multiple that one of n polls would have passed.
func TestPassed(t *testing.T) {
	for _, step := range []uint64{1, 3, 16, 17, 64, 100} {
		times, last := 0, uint64(0)
		for range 100 {
			if last += step; passed(last, step, 64) {
				times++
			}
		}
		if want := min(100*step/64, 100); uint64(times) != want {
			t.Errorf("100 polls for %d each look %d times, want %d", step, times, want)
		}
	}
}
