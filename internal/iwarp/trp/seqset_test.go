// SPDX-License-Identifier: BSD-2-Clause

package trp

import (
	"math/rand/v2"
	"testing"
)

// The set agrees with a map, wherever its window stands.
func TestSeqset(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, window := range []int{64, 128, 1024} {
		s := newSeqset(window)
		model := map[uint64]bool{}
		floor := uint64(1<<32 - 500)
		for range 20000 {
			seq := floor + r.Uint64N(uint64(window))
			switch r.IntN(5) {
			case 0:
				s.remove(seq)
				delete(model, seq)
			case 1: // the window moves on
				for range r.IntN(70) {
					s.remove(floor)
					delete(model, floor)
					floor++
				}
			default:
				s.add(seq)
				model[seq] = true
			}
			limit := floor + uint64(window)
			from := floor + r.Uint64N(uint64(window))
			end := from
			for end < limit && model[end] {
				end++
			}
			start := from
			for start > floor && model[start-1] {
				start--
			}
			last, found := from, false
			for !found && last > floor {
				last--
				found = model[last]
			}
			if got := s.has(from); got != model[from] {
				t.Fatalf("has(%d) = %v", from, got)
			}
			if got := s.runEnd(from, limit); got != end {
				t.Fatalf("runEnd(%d) = %d, want %d", from, got, end)
			}
			if got := s.runStart(from, floor); got != start {
				t.Fatalf("runStart(%d) = %d, want %d", from, got, start)
			}
			if got, ok := s.lastBefore(from, floor); ok != found || ok && got != last {
				t.Fatalf("lastBefore(%d) = %d, %v, want %d, %v", from, got, ok, last, found)
			}
		}
	}
}
