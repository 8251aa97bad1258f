// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

import (
	"sync"
	"testing"
)

func TestHandles(t *testing.T) {
	one := table[int]{kind: kindPD}
	other := table[int]{kind: kindCQ}
	v := 7
	h, err := one.put(&v)
	if err != nil || one.get(h) != &v {
		t.Fatalf("handle %#x, error %v", h, err)
	}
	for what, h := range map[string]handle{
		"none": 0, "another place": h + 1, "far away": h | maxPlaces<<2, "another generation": h + 1<<placeBits,
		"another kind": h ^ 1<<(placeBits+generationBits), "all ones": ^handle(0),
	} {
		if one.get(h) != nil || one.remove(h) {
			t.Errorf("%s: %#x names something", what, h)
		}
	}
	if other.get(h) != nil {
		t.Error("a table answers for another's handle")
	}
	for range 3 {
		if !one.remove(h) || one.remove(h) || one.get(h) != nil {
			t.Fatal("a handle is removed once")
		}
		next, _ := one.put(&v)
		if uint32(next) != uint32(h) || next == h {
			t.Fatalf("after %#x came %#x: want the same place, another generation", h, next)
		}
		h = next
	}
}

// Look-ups work while places are taken and given back.
func TestHandlesConcurrently(t *testing.T) {
	tab := table[int]{kind: kindQP}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			var mine []handle
			for n := range 3 * chunkPlaces {
				v := i<<16 | n
				h, err := tab.put(&v)
				if err != nil || *tab.get(h) != v {
					t.Errorf("put: %v", err)
					return
				}
				if mine = append(mine, h); n%3 == 0 {
					if old := mine[0]; !tab.remove(old) || tab.get(old) != nil {
						t.Errorf("%#x cannot be removed", old)
					}
					mine = mine[1:]
				}
			}
		}()
	}
	wg.Wait()
}

func BenchmarkHandle(b *testing.B) {
	tab := table[int]{kind: kindQP}
	v := 1
	h, _ := tab.put(&v)
	for b.Loop() {
		if tab.get(h) == nil {
			b.Fatal("gone")
		}
	}
}
