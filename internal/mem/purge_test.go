// SPDX-License-Identifier: BSD-2-Clause

package mem

import (
	"errors"
	"testing"

	"verbena/ib"
)

// All of a purged domain is gone, keys of windows too. Other domains keep theirs, and slots come
// back.
func TestPurge(t *testing.T) {
	table := newTestTable(1)
	const mine, other = PD(3), PD(4)
	type owned struct {
		plain, fast *Region
		window      *Window
		key         ib.RKey
	}
	make1 := func(pd PD) (o owned) {
		buf := make([]byte, 64)
		var err error
		if o.plain, err = table.Register(pd, buf, 0x1000, fullAccess); err != nil {
			t.Fatal(err)
		}
		if o.fast, err = table.AllocFast(pd, 1); err != nil {
			t.Fatal(err)
		}
		if o.window, err = table.AllocWindow(pd, ib.MWType1); err != nil {
			t.Fatal(err)
		}
		var v AccessError
		if o.key, v = table.Bind(o.window, 1, 0, o.plain, 0x1000, 32, ib.AccessRemoteWrite); v != ib.VendorNone {
			t.Fatal(v)
		}
		return o
	}
	works := func(pd PD, key ib.RKey) bool {
		s, v := table.Remote(pd, 1, key, 0x1000, 8, ib.AccessRemoteWrite)
		if v == ib.VendorNone {
			s.Release()
		}
		return v == ib.VendorNone
	}
	a, b := make1(mine), make1(other)
	table.Purge(map[PD]bool{mine: true})
	if works(mine, a.key) || works(mine, a.plain.RKey()) {
		t.Error("a key of the purged domain works")
	}
	if !works(other, b.key) || !works(other, b.plain.RKey()) {
		t.Error("a key of another domain does not work any more")
	}
	for _, r := range []*Region{a.plain, a.fast} {
		if err := table.Deregister(r); !errors.Is(err, ErrGone) {
			t.Errorf("a purged region: %v", err)
		}
		if g := r.entry.Load(); g.mem != nil || g.segs != nil {
			t.Error("its memory is kept")
		}
	}
	if err := table.FreeWindow(a.window); !errors.Is(err, ErrGone) {
		t.Errorf("a purged window: %v", err)
	}
	if err := table.FreeWindow(b.window); err != nil {
		t.Error(err)
	}
	if err := table.Deregister(b.plain); err != nil {
		t.Error(err)
	}
	if table.freeLen != 5 {
		t.Errorf("%d slots are free, want 5", table.freeLen)
	}
}
