// SPDX-License-Identifier: BSD-2-Clause

package mem

import "testing"

// The first taker gets half, the second half of the rest; all is given back.
func TestBudget(t *testing.T) {
	b := NewBudget(1200)
	take := func(taken int) int {
		for b.Take(taken, 10) {
			taken += 10
		}
		return taken
	}
	first := take(0)
	second := take(0)
	third := take(0)
	if first != 600 || second != 300 || third != 150 {
		t.Fatalf("%d, %d, %d", first, second, third)
	}
	b.Give(first)
	if more := take(second); more != 520 {
		t.Fatalf("%d after half was given back", more)
	}
	if b.Take(0, 1000) {
		t.Fatal("more than is left")
	}
}
