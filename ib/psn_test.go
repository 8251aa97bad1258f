// SPDX-License-Identifier: BSD-2-Clause

package ib

import "testing"

func TestPSNSerialArithmetic(t *testing.T) {
	const last = 1<<24 - 1
	for _, c := range []struct {
		p, q PSN
		diff int32
	}{
		{0, 0, 0}, {1, 0, 1}, {0, 1, -1}, {0, last, 1}, {last, 0, -1}, {5, last - 4, 10},
		{1<<23 - 1, 0, 1<<23 - 1}, // the farthest that is still after
		{1 << 23, 0, -1 << 23},    // half way round counts as before
	} {
		if got := c.p.Diff(c.q); got != c.diff {
			t.Errorf("%v - %v = %d, want %d", c.p, c.q, got, c.diff)
		}
		if c.p.After(c.q) != (c.diff > 0) || c.p.Before(c.q) != (c.diff < 0) {
			t.Errorf("%v against %v: before %v, after %v", c.p, c.q, c.p.Before(c.q), c.p.After(c.q))
		}
	}
}

// Whatever the start, n steps forward are n apart, and one back is the inverse
// of one forward.
func TestPSNSteps(t *testing.T) {
	for _, start := range []PSN{0, 1, 1<<23 - 1, 1 << 23, 1<<24 - 2, 1<<24 - 1} {
		for _, n := range []uint32{0, 1, 100, 1<<23 - 1} {
			p := start.Add(n)
			if p > 1<<24-1 || p.Diff(start) != int32(n) {
				t.Errorf("%v + %d = %v, which is %d away", start, n, p, p.Diff(start))
			}
		}
		if start.Add(1).Prev() != start || start.Prev().Add(1) != start {
			t.Errorf("%v: forward and back does not return", start)
		}
	}
	if NewPSN(0x12345678) != 0x345678 {
		t.Error("NewPSN does not take the low 24 bits")
	}
	if m := MSN(1<<24 - 1).Add(2); m != 1 || m.Diff(1<<24-1) != 2 {
		t.Errorf("an MSN does not wrap: %v", m)
	}
}
