// SPDX-License-Identifier: BSD-2-Clause

package mem

import (
	"errors"
	"testing"

	"verbena/ib"
)

func TestWindowType1(t *testing.T) {
	tab := newTestTable(1)
	r := mustRegister(t, tab, make([]byte, 64), iova, ib.AccessLocalWrite|ib.AccessMWBind)
	w := mustWindow(t, tab, ib.MWType1)
	if w.Type() != ib.MWType1 || w.PD() != pd1 {
		t.Errorf("type %v PD %d", w.Type(), w.PD())
	}
	wantRemote(t, tab, w.RKey(), iova, 1, ib.AccessRemoteRead, ib.VendorKey) // not bound yet

	// The window grants rights that the region itself does not.
	next := w.NextKey()
	k1, v := tab.Bind(w, qp1, 0, r, iova+8, 16, ib.AccessRemoteRead|ib.AccessRemoteWrite)
	wantAccessError(t, "bind", v, ib.VendorNone)
	if k1 != w.RKey() || k1 != next {
		t.Errorf("key %#x, RKey %#x, NextKey %#x", k1, w.RKey(), next)
	}
	wantRemote(t, tab, k1, iova+8, 16, ib.AccessRemoteWrite, ib.VendorNone)
	wantRemote(t, tab, k1, iova+7, 1, ib.AccessRemoteWrite, ib.VendorBounds)
	wantRemote(t, tab, k1, iova+24, 1, ib.AccessRemoteWrite, ib.VendorBounds)
	wantRemote(t, tab, k1, iova+8, 8, ib.AccessRemoteAtomic, ib.VendorAccess)
	wantRemote(t, tab, r.RKey(), iova+8, 1, ib.AccessRemoteRead, ib.VendorAccess)
	wantLocal(t, tab, ib.SGE{Addr: iova + 8, Length: 1, LKey: ib.LKey(k1)}, 0, ib.VendorKey)
	if s, v := tab.Remote(pd1, qp2, k1, iova+8, 1, ib.AccessRemoteRead); v != ib.VendorNone {
		t.Errorf("type 1 on another queue pair: %v", v)
	} else {
		s.Release()
	}
	if _, v := tab.Remote(pd2, qp1, k1, iova+8, 1, ib.AccessRemoteRead); v != ib.VendorPD {
		t.Errorf("other domain: %v", v)
	}

	// Binding again moves it, under a new key.
	k2, v := tab.Bind(w, qp1, 0, r, iova, 8, ib.AccessRemoteRead)
	wantAccessError(t, "bind again", v, ib.VendorNone)
	if k2 == k1 || k2>>8 != k1>>8 {
		t.Errorf("key %#x after %#x", k2, k1)
	}
	wantRemote(t, tab, k1, iova+8, 1, ib.AccessRemoteRead, ib.VendorKey)
	wantRemote(t, tab, k2, iova, 8, ib.AccessRemoteRead, ib.VendorNone)

	// A key chosen beforehand, as ibv_bind_mw tells it when posting.
	k3, v := tab.Bind(w, qp1, k2^0x55, r, iova, 8, ib.AccessRemoteRead)
	wantAccessError(t, "bind to a chosen key", v, ib.VendorNone)
	if k3 != k2^0x55 {
		t.Errorf("key %#x, chose %#x", k3, k2^0x55)
	}
	_, v = tab.Bind(w, qp1, k3, r, iova, 8, ib.AccessRemoteRead)
	wantAccessError(t, "bind to the key it has", v, ib.VendorKey)
	_, v = tab.Bind(w, qp1, k3^0x100, r, iova, 8, ib.AccessRemoteRead)
	wantAccessError(t, "bind to another slot's key", v, ib.VendorKey)

	// Length 0 unbinds, and needs no region.
	k4, v := tab.Bind(w, qp1, 0, nil, 0, 0, 0)
	wantAccessError(t, "unbind", v, ib.VendorNone)
	wantRemote(t, tab, k3, iova, 1, ib.AccessRemoteRead, ib.VendorKey)
	wantRemote(t, tab, k4, iova, 1, ib.AccessRemoteRead, ib.VendorKey)
	if err := tab.Deregister(r); err != nil {
		t.Errorf("deregister after unbind: %v", err)
	}
	_, v = tab.Bind(w, qp1, 0, r, iova, 8, ib.AccessRemoteRead)
	wantAccessError(t, "bind to a deregistered region", v, ib.VendorBound)
}

// A type 1 window's key goes through all its 256 values before one comes back.
func TestWindowKeysCycle(t *testing.T) {
	tab := newTestTable(2)
	r := mustRegister(t, tab, make([]byte, 8), 0, fullAccess)
	w := mustWindow(t, tab, ib.MWType1)
	seen := map[ib.RKey]bool{w.RKey(): true}
	for range 255 {
		k, v := tab.Bind(w, qp1, 0, r, 0, 8, ib.AccessRemoteRead)
		if v != ib.VendorNone || seen[k] {
			t.Fatalf("key %#x: %v, seen %v", k, v, seen[k])
		}
		seen[k] = true
	}
}

func TestWindowType2(t *testing.T) {
	tab := newTestTable(3)
	r := mustRegister(t, tab, make([]byte, 64), iova, ib.AccessLocalWrite|ib.AccessMWBind)
	w := mustWindow(t, tab, ib.MWType2)
	key := w.RKey()&^0xff | 0xa5
	got, v := tab.Bind(w, qp1, key, r, iova+8, 16, ib.AccessRemoteRead)
	wantAccessError(t, "bind", v, ib.VendorNone)
	if got != key || w.RKey() != key {
		t.Errorf("key %#x, RKey %#x, want %#x", got, w.RKey(), key)
	}
	wantRemote(t, tab, key, iova+8, 16, ib.AccessRemoteRead, ib.VendorNone)
	if _, v := tab.Remote(pd1, qp2, key, iova+8, 1, ib.AccessRemoteRead); v != ib.VendorBound {
		t.Errorf("on another queue pair: %v", v)
	}
	_, v = tab.Bind(w, qp1, key+1, r, iova, 8, ib.AccessRemoteRead)
	wantAccessError(t, "bind while bound", v, ib.VendorBound)

	// Invalidation, local and remote.
	wantAccessError(t, "invalidate in another domain", tab.Invalidate(pd2, qp1, key, true), ib.VendorPD)
	wantAccessError(t, "invalidate from another queue pair", tab.Invalidate(pd1, qp2, key, true), ib.VendorBound)
	wantAccessError(t, "invalidate another tag", tab.Invalidate(pd1, qp1, key+1, true), ib.VendorKey)
	wantRemote(t, tab, key, iova+8, 1, ib.AccessRemoteRead, ib.VendorNone)
	wantAccessError(t, "remote invalidate", tab.Invalidate(pd1, qp1, key, true), ib.VendorNone)
	wantRemote(t, tab, key, iova+8, 1, ib.AccessRemoteRead, ib.VendorKey)
	wantAccessError(t, "remote invalidate again", tab.Invalidate(pd1, qp1, key, true), ib.VendorKey)
	wantAccessError(t, "LOCAL_INV behind it", tab.Invalidate(pd1, qp1, key, false), ib.VendorNone)

	_, v = tab.Bind(w, qp2, key+1, r, iova, 8, ib.AccessRemoteRead)
	wantAccessError(t, "bind after invalidation", v, ib.VendorNone)
	wantAccessError(t, "LOCAL_INV", tab.Invalidate(pd1, qp1, key+1, false), ib.VendorNone)
	wantRemote(t, tab, key+1, iova, 1, ib.AccessRemoteRead, ib.VendorKey)

	// Only the low bits of the key asked for count.
	key, v = tab.Bind(w, qp1, (w.RKey()^0x5a5a5a00)+1, r, iova, 8, ib.AccessRemoteRead)
	wantAccessError(t, "bind by another's upper bits", v, ib.VendorNone)
	if key != w.RKey() || key>>8 != got>>8 {
		t.Errorf("key %#x, RKey %#x, want the upper bits of %#x", key, w.RKey(), got)
	}
	wantRemote(t, tab, key, iova, 8, ib.AccessRemoteRead, ib.VendorNone)
	wantRemote(t, tab, key^0x5a5a5a00, iova, 8, ib.AccessRemoteRead, ib.VendorKey)
}

func TestWindowType1CannotBeInvalidated(t *testing.T) {
	tab := newTestTable(4)
	r := mustRegister(t, tab, make([]byte, 8), iova, fullAccess)
	w := mustWindow(t, tab, ib.MWType1)
	key, v := tab.Bind(w, qp1, 0, r, iova, 8, ib.AccessRemoteRead)
	wantAccessError(t, "bind", v, ib.VendorNone)
	for _, remote := range []bool{false, true} {
		wantAccessError(t, "type 1 window", tab.Invalidate(pd1, qp1, key, remote), ib.VendorAccess)
		wantAccessError(t, "its region", tab.Invalidate(pd1, qp1, r.RKey(), remote), ib.VendorAccess)
	}
	wantRemote(t, tab, key, iova, 8, ib.AccessRemoteRead, ib.VendorNone)
}

func TestWindowZeroBased(t *testing.T) {
	tab := newTestTable(5)
	buf := words(64)
	r := mustRegister(t, tab, buf, iova, fullAccess)
	w := mustWindow(t, tab, ib.MWType2)
	key, v := tab.Bind(w, qp1, w.RKey(), r, iova+16, 16, ib.AccessRemoteWrite|ib.AccessRemoteAtomic|ib.AccessZeroBased)
	wantAccessError(t, "bind", v, ib.VendorNone)
	wantRemote(t, tab, key, iova+16, 1, ib.AccessRemoteWrite, ib.VendorBounds)
	wantRemote(t, tab, key, 16, 1, ib.AccessRemoteWrite, ib.VendorBounds)
	wantRemote(t, tab, key, 8, 8, ib.AccessRemoteAtomic, ib.VendorNone)
	s, v := tab.Remote(pd1, qp1, key, 15, 1, ib.AccessRemoteWrite)
	wantAccessError(t, "write", v, ib.VendorNone)
	s.CopyIn(0, []byte{0xee})
	s.Release()
	if buf[31] != 0xee {
		t.Error("the byte did not land at the window's end")
	}
}

// TestBindRefuses: each refusal leaves window and region as they were.
func TestBindRefuses(t *testing.T) {
	tab := newTestTable(6)
	reg := func(access ib.Access, base uint64) *Region {
		return mustRegister(t, tab, make([]byte, 64), base, access)
	}
	good := reg(fullAccess, iova)
	noBind := reg(ib.AccessLocalWrite|ib.AccessRemote, iova)
	readOnly := reg(ib.AccessMWBind|ib.AccessRemoteRead, iova)
	zero := reg(fullAccess|ib.AccessZeroBased, 0)
	foreign, err := tab.Register(pd2, make([]byte, 64), iova, fullAccess)
	if err != nil {
		t.Fatal(err)
	}
	free, err := tab.AllocFast(pd1, 1)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := mustRegister(t, newTestTable(7), make([]byte, 64), iova, fullAccess)
	read, write := ib.AccessRemoteRead, ib.AccessRemoteWrite
	for _, c := range []struct {
		name      string
		typ       ib.MWType
		mr        *Region
		addr, len uint64
		access    ib.Access
		want      AccessError
	}{
		{"local right", ib.MWType1, good, iova, 8, ib.AccessLocalWrite, ib.VendorAccess},
		{"bind right", ib.MWType2, good, iova, 8, ib.AccessMWBind, ib.VendorAccess},
		{"C10-73 region without MW_BIND", ib.MWType1, noBind, iova, 8, read, ib.VendorAccess},
		{"C10-74 write to read-only memory", ib.MWType2, readOnly, iova, 8, write, ib.VendorAccess},
		{"C10-74 atomics on read-only memory", ib.MWType1, readOnly, iova, 8, ib.AccessRemoteAtomic, ib.VendorAccess},
		{"read of read-only memory", ib.MWType1, readOnly, iova, 8, read, ib.VendorNone},
		{"C10-75 before the start", ib.MWType1, good, iova - 1, 8, read, ib.VendorBounds},
		{"C10-75 beyond the end", ib.MWType2, good, iova, 65, read, ib.VendorBounds},
		{"C10-75 wrapping", ib.MWType2, good, iova + 8, ^uint64(0) - 4, read, ib.VendorBounds},
		{"C10-75 wrapping below", ib.MWType1, good, ^uint64(0), 2 + iova, read, ib.VendorBounds},
		{"o10-36.2.2 zero-based type 1", ib.MWType1, good, iova, 8, read | ib.AccessZeroBased, ib.VendorBound},
		{"o10-37.2.40 type 2 of length 0", ib.MWType2, good, iova, 0, read, ib.VendorBound},
		{"zero-based region", ib.MWType2, zero, 0, 8, read, ib.VendorBound},
		{"other domain", ib.MWType1, foreign, iova, 8, read, ib.VendorPD},
		{"no region", ib.MWType2, nil, iova, 8, read, ib.VendorBound},
		{"free fast-registration region", ib.MWType2, free, 0, 8, read, ib.VendorBound},
		{"other device's region", ib.MWType1, elsewhere, iova, 8, read, ib.VendorBound},
	} {
		w := mustWindow(t, tab, c.typ)
		if c.typ == ib.MWType1 && c.want != ib.VendorNone { // bound before: that must survive
			_, v := tab.Bind(w, qp1, 0, good, iova, 4, read)
			wantAccessError(t, "first bind", v, ib.VendorNone)
		}
		key, ask := w.RKey(), ib.RKey(0)
		if c.typ == ib.MWType2 {
			ask = key
		}
		got, v := tab.Bind(w, qp1, ask, c.mr, c.addr, c.len, c.access)
		wantAccessError(t, c.name, v, c.want)
		if v != ib.VendorNone {
			if got != 0 || w.RKey() != key {
				t.Errorf("%s: key %#x, RKey %#x, want 0 and %#x", c.name, got, w.RKey(), key)
			}
			if c.typ == ib.MWType1 {
				wantRemote(t, tab, key, iova, 4, read, ib.VendorNone)
			}
		}
		if err := tab.FreeWindow(w); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range []*Region{good, noBind, readOnly, zero, foreign, free} {
		if r.windows != 0 {
			t.Errorf("%d windows left on a region", r.windows)
		}
	}
}

func TestWindowsHoldTheirRegion(t *testing.T) {
	tab := newTestTable(8)
	r := mustFast(t, tab, [][]byte{make([]byte, 8), make([]byte, 8)}, iova, fullAccess)
	w1, w2 := mustWindow(t, tab, ib.MWType1), mustWindow(t, tab, ib.MWType2)
	_, v := tab.Bind(w1, qp1, 0, r, iova+4, 8, ib.AccessRemoteRead)
	wantAccessError(t, "bind type 1", v, ib.VendorNone)
	key, v := tab.Bind(w2, qp1, w2.RKey(), r, iova, 16, ib.AccessRemoteRead)
	wantAccessError(t, "bind type 2", v, ib.VendorNone)
	busy := func(n string) {
		t.Helper()
		if err := tab.Deregister(r); !errors.Is(err, ErrBusy) {
			t.Errorf("deregister with %s: %v, want ErrBusy", n, err)
		}
		wantAccessError(t, "LOCAL_INV with "+n, tab.Invalidate(pd1, qp1, r.RKey(), false), ib.VendorBound)
		wantAccessError(t, "remote invalidate with "+n, tab.Invalidate(pd1, qp1, r.RKey(), true), ib.VendorBound)
		wantRemote(t, tab, r.RKey(), iova, 16, ib.AccessRemoteRead, ib.VendorNone)
	}
	busy("two windows")
	if err := tab.FreeWindow(w1); err != nil {
		t.Fatal(err)
	}
	busy("one window")
	wantAccessError(t, "invalidate the window", tab.Invalidate(pd1, qp1, key, true), ib.VendorNone)
	wantAccessError(t, "LOCAL_INV", tab.Invalidate(pd1, qp1, r.RKey(), false), ib.VendorNone)
	if err := tab.Deregister(r); err != nil {
		t.Fatal(err)
	}
}

func TestFreeWindow(t *testing.T) {
	tab := newTestTable(9)
	r := mustRegister(t, tab, make([]byte, 8), iova, fullAccess)
	w := mustWindow(t, tab, ib.MWType2)
	key, v := tab.Bind(w, qp1, w.RKey(), r, iova, 8, ib.AccessRemoteRead)
	wantAccessError(t, "bind", v, ib.VendorNone)
	if err := newTestTable(1).FreeWindow(w); !errors.Is(err, ErrInvalid) {
		t.Errorf("through another table: %v", err)
	}
	if err := tab.FreeWindow(w); err != nil {
		t.Fatal(err)
	}
	wantRemote(t, tab, key, iova, 1, ib.AccessRemoteRead, ib.VendorKey)
	wantAccessError(t, "invalidate a freed window", tab.Invalidate(pd1, qp1, key, false), ib.VendorKey)
	_, v = tab.Bind(w, qp1, key, r, iova, 8, ib.AccessRemoteRead)
	wantAccessError(t, "bind a freed window", v, ib.VendorBound)
	if err := tab.FreeWindow(w); !errors.Is(err, ErrGone) {
		t.Errorf("twice: %v, want ErrGone", err)
	}
	if _, err := tab.AllocWindow(pd1, 3); !errors.Is(err, ErrInvalid) {
		t.Errorf("type 3: %v", err)
	}
}
