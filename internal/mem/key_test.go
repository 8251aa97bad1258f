// SPDX-License-Identifier: BSD-2-Clause

package mem

import (
	"testing"

	"verbena/ib"
)

func TestPermutationIsBijection(t *testing.T) {
	for seed := range uint32(3) {
		p := newPermutation(func() uint32 { seed = seed*1664525 + 1013904223; return seed })
		for n := seed & 63; n < maxSlots; n += 61 {
			h := p.hide(n)
			if h >= maxSlots || p.show(h) != n {
				t.Fatalf("show(hide(%#x)) = show(%#x) = %#x", n, h, p.show(h))
			}
		}
	}
}

// The keys of regions registered one after the other must tell nothing about
// one another: no two tables agree, and no constant step shows.
func TestKeysAreScattered(t *testing.T) {
	const n = 500
	a, b := newTestTable(1), newTestTable(2)
	steps := map[ib.RKey]int{}
	same := 0
	var last ib.RKey
	for range n {
		ka, kb := mustRegister(t, a, nil, 0, 0).RKey()>>8, mustRegister(t, b, nil, 0, 0).RKey()>>8
		if ka == kb {
			same++
		}
		steps[ka-last]++
		last = ka
	}
	if same > 2 {
		t.Errorf("%d of %d keys are the same under another seed", same, n)
	}
	for step, count := range steps {
		if count > 5 {
			t.Errorf("step %#x between keys occurs %d times", step, count)
		}
	}
}

// A stale key must stay void: it is not given to the next region, nor to any
// for a long time.
func TestKeysAreNotReusedSoon(t *testing.T) {
	tab := newTestTable(3)
	seen := map[ib.RKey]bool{}
	freed := map[ib.RKey]int{} // upper 24 bits → when
	for i := range 10 * quarantineSlots {
		r := mustRegister(t, tab, make([]byte, 1), 0, ib.AccessRemoteRead)
		key := r.RKey()
		if key>>8 == 0 {
			t.Fatalf("key %#x looks like none", key)
		}
		if seen[key] {
			t.Fatalf("key %#x given out again at registration %d", key, i)
		}
		if at, ok := freed[key>>8]; ok && i-at <= quarantineSlots {
			t.Fatalf("slot of key %#x came back after %d registrations", key, i-at)
		}
		seen[key], freed[key>>8] = true, i
		if err := tab.Deregister(r); err != nil {
			t.Fatal(err)
		}
		wantRemote(t, tab, key, 0, 1, ib.AccessRemoteRead, ib.VendorKey)
	}
	if n := len(*tab.chunks.Load()); n > 2 {
		t.Errorf("table has %d chunks for one region at a time", n)
	}
}

func TestKeyOfZeroIsSkipped(t *testing.T) {
	tab := newTestTable(4)
	tab.perm.mask1 ^= tab.perm.hide(2) // slot 2 would have keys 0 to 255
	for range 5 {
		if r := mustRegister(t, tab, nil, 0, 0); r.RKey()>>8 == 0 {
			t.Errorf("key %#x was given out", r.RKey())
		}
	}
	if tab.fresh != 6 {
		t.Errorf("5 regions took %d slots, want one to be skipped", tab.fresh)
	}
}

// CVE-2021-47012 (siw_alloc_mr): a region that found no key stayed in the table, freed. Here a
// refused call changes nothing.
func TestTableFull(t *testing.T) {
	tab := newTestTable(5)
	kept := mustRegister(t, tab, nil, 0, 0)
	tab.fresh = maxSlots
	if _, err := tab.Register(pd1, nil, 0, 0); err == nil {
		t.Error("Register found a key in a full table")
	}
	if _, err := tab.AllocFast(pd1, 1); err == nil {
		t.Error("AllocFast found a key in a full table")
	}
	if _, err := tab.AllocWindow(pd1, ib.MWType1); err == nil {
		t.Error("AllocWindow found a key in a full table")
	}
	rows := (*tab.chunks.Load())[0]
	for n := range rows {
		if s := &rows[n]; uint32(n) != kept.slot && (s.region != nil || s.window != nil || s.entry.Load() != nil) {
			t.Errorf("what was refused is in slot %d", n)
		}
	}
	if tab.fresh != maxSlots || tab.freeLen != 0 {
		t.Errorf("%d slots were taken, %d given back", tab.fresh-maxSlots, tab.freeLen)
	}
}
