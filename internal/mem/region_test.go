// SPDX-License-Identifier: BSD-2-Clause

package mem

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"verbena/ib"
)

func TestRegisterAttributes(t *testing.T) {
	tab := newTestTable(1)
	r, err := tab.Register(pd2, make([]byte, 100), iova, fullAccess)
	if err != nil {
		t.Fatal(err)
	}
	if r.Addr() != iova || r.Length() != 100 || r.Access() != fullAccess || r.PD() != pd2 || uint32(r.LKey()) != uint32(r.RKey()) {
		t.Errorf("addr %#x length %d access %v PD %d keys %#x %#x", r.Addr(), r.Length(), r.Access(), r.PD(), r.LKey(), r.RKey())
	}
}

func TestRegisterRefuses(t *testing.T) {
	tab := newTestTable(2)
	buf := make([]byte, 16)
	for _, c := range []struct {
		name   string
		iova   uint64
		access ib.Access
	}{
		{"unknown access bit", 0, 1 << 15},
		{"remote write without local write", 0, ib.AccessRemoteWrite},
		{"remote atomic without local write", 0, ib.AccessRemoteAtomic},
		{"zero-based with an address", 8, ib.AccessZeroBased},
		{"wrapping range", math.MaxUint64 - 14, 0},
	} {
		if r, err := tab.Register(pd1, buf, c.iova, c.access); !errors.Is(err, ErrInvalid) || r != nil {
			t.Errorf("%s: %v, %v, want ErrInvalid", c.name, r, err)
		}
	}
	if tab.fresh != 0 {
		t.Error("a refused registration took a slot")
	}
}

// TestEveryAccessCombination compares each set of rights with each need.
func TestEveryAccessCombination(t *testing.T) {
	tab := newTestTable(3)
	buf := words(64)
	needs := []ib.Access{ib.AccessRemoteRead, ib.AccessRemoteWrite, ib.AccessRemoteAtomic, ib.AccessFlushGlobal, ib.AccessFlushPersistent, ib.AccessFlushGlobal | ib.AccessRemoteRead}
	for a := ib.Access(0); a < 1<<10; a++ {
		base := uint64(iova)
		if a.Has(ib.AccessZeroBased) {
			base = 0
		}
		remoteWrites := a&ib.AccessRemoteWrite != 0 || a&ib.AccessRemoteAtomic != 0
		r, err := tab.Register(pd1, buf, base, a)
		if legal := !remoteWrites || a&ib.AccessLocalWrite != 0; legal != (err == nil) {
			t.Fatalf("register with %v: %v", a, err)
		}
		if err != nil {
			continue
		}
		for _, need := range needs {
			want := ib.VendorAccess
			if a&need == need {
				want = ib.VendorNone
			}
			wantRemote(t, tab, r.RKey(), base+8, 8, need, want)
		}
		want := ib.VendorAccess
		if a&ib.AccessLocalWrite != 0 {
			want = ib.VendorNone
		}
		wantLocal(t, tab, ib.SGE{Addr: base, Length: 64, LKey: r.LKey()}, ib.AccessLocalWrite, want)
		wantLocal(t, tab, ib.SGE{Addr: base, Length: 64, LKey: r.LKey()}, 0, ib.VendorNone)
		if err := tab.Deregister(r); err != nil {
			t.Fatal(err)
		}
	}
}

// Spec: IBTA vol. 1, 10.6.3: the domain comes before rights and range.
func TestChecksInOrder(t *testing.T) {
	tab := newTestTable(4)
	r := mustRegister(t, tab, make([]byte, 16), iova, ib.AccessRemoteRead)
	out := uint64(iova + 100)
	if _, v := tab.Remote(pd2, qp1, r.RKey()^1, out, 1, ib.AccessRemoteWrite); v != ib.VendorKey {
		t.Errorf("wrong key, domain, right and range: %v", v)
	}
	if _, v := tab.Remote(pd2, qp1, r.RKey(), out, 1, ib.AccessRemoteWrite); v != ib.VendorPD {
		t.Errorf("wrong domain, right and range: %v", v)
	}
	wantRemote(t, tab, r.RKey(), out, 1, ib.AccessRemoteWrite, ib.VendorAccess)
	wantRemote(t, tab, r.RKey(), out, 1, ib.AccessRemoteRead, ib.VendorBounds)
	wantRemote(t, tab, r.RKey(), iova+15, 1, ib.AccessRemoteRead, ib.VendorNone)
	if _, v := tab.Local(pd2, ib.SGE{Addr: out, Length: 1, LKey: r.LKey()}, ib.AccessLocalWrite); v != ib.VendorPD {
		t.Errorf("local, wrong domain, right and range: %v", v)
	}
	wantLocal(t, tab, ib.SGE{Addr: out, Length: 1, LKey: r.LKey()}, ib.AccessLocalWrite, ib.VendorAccess)
	wantLocal(t, tab, ib.SGE{Addr: out, Length: 1, LKey: r.LKey()}, 0, ib.VendorBounds)
	wantLocal(t, tab, ib.SGE{Addr: iova, Length: 1, LKey: r.LKey() ^ 1}, 0, ib.VendorKey)
}

func TestAtomicAlignment(t *testing.T) {
	tab := newTestTable(5)
	even := words(64)
	aligned := mustRegister(t, tab, even, iova, fullAccess)
	shifted := mustRegister(t, tab, even[4:36], iova, fullAccess) // iova is aligned, the memory is not
	atomics := ib.AccessRemoteAtomic
	wantRemote(t, tab, aligned.RKey(), iova+8, 8, atomics, ib.VendorNone)
	wantRemote(t, tab, aligned.RKey(), iova+4, 8, atomics, ib.VendorAlign)
	wantRemote(t, tab, aligned.RKey(), iova+8, 4, atomics, ib.VendorAlign)
	wantRemote(t, tab, shifted.RKey(), iova, 8, atomics, ib.VendorAlign)
	wantRemote(t, tab, shifted.RKey(), iova+4, 8, atomics, ib.VendorAlign)
	wantRemote(t, tab, aligned.RKey(), iova+60, 8, atomics, ib.VendorBounds)
	if aligned.Idle(); !aligned.Idle() || !shifted.Idle() {
		t.Error("a refused atomic left its span held")
	}
}

func TestRegisterAnyMemory(t *testing.T) {
	// Memory in place: the region is the application's bytes, not a copy.
	tab := newTestTable(6)
	buf := []byte("application memory")
	r := mustRegister(t, tab, buf, 0, fullAccess|ib.AccessZeroBased)
	s, v := tab.Remote(pd1, qp1, r.RKey(), 12, 6, ib.AccessRemoteWrite)
	wantAccessError(t, "write", v, ib.VendorNone)
	s.CopyIn(0, []byte("MEMORY"))
	s.Release()
	if string(buf) != "application MEMORY" {
		t.Errorf("memory is %q", buf)
	}
}

func TestReregister(t *testing.T) {
	tab := newTestTable(7)
	first, second := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 16)
	r := mustRegister(t, tab, first, iova, ib.AccessRemoteRead)
	k0 := r.RKey()

	// Rights alone.
	if err := tab.Reregister(r, ib.ReregAccess, 9, nil, 9, fullAccess); err != nil {
		t.Fatal(err)
	}
	if k := r.RKey(); k != k0 {
		t.Errorf("key %#x after %#x: new rights change no key", k, k0)
	}
	wantRemote(t, tab, k0, iova, 32, ib.AccessRemoteWrite, ib.VendorNone)

	// Memory and domain.
	if err := tab.Reregister(r, ib.ReregTranslation|ib.ReregPD, pd2, second, 2*iova, 0); err != nil {
		t.Fatal(err)
	}
	if k := r.RKey(); k == k0 || k>>8 != k0>>8 {
		t.Errorf("key %#x after %#x: want a new one of the same slot", k, k0)
	}
	wantRemote(t, tab, k0, iova, 1, ib.AccessRemoteRead, ib.VendorKey)
	if r.PD() != pd2 || r.Addr() != 2*iova || r.Length() != 16 || r.Access() != fullAccess {
		t.Errorf("PD %d addr %#x length %d access %v", r.PD(), r.Addr(), r.Length(), r.Access())
	}
	s, v := tab.Remote(pd2, qp1, r.RKey(), 2*iova, 16, ib.AccessRemoteRead)
	wantAccessError(t, "read of the new memory", v, ib.VendorNone)
	got := make([]byte, 16)
	s.CopyOut(0, got)
	s.Release()
	if !bytes.Equal(got, second) {
		t.Errorf("read %v", got)
	}
}

func TestReregisterRefusesAndChangesNothing(t *testing.T) {
	tab := newTestTable(8)
	r := mustRegister(t, tab, make([]byte, 32), iova, fullAccess)
	key := r.RKey()
	fast, err := tab.AllocFast(pd1, 1)
	if err != nil {
		t.Fatal(err)
	}
	other := mustRegister(t, newTestTable(9), nil, 0, 0)
	buf := make([]byte, 8)
	for _, c := range []struct {
		name   string
		r      *Region
		flags  ib.ReregFlags
		iova   uint64
		access ib.Access
		want   error
	}{
		{"no flags", r, 0, 0, 0, ErrInvalid},
		{"unknown flags", r, 1 << 5, 0, 0, ErrInvalid},
		{"illegal access", r, ib.ReregAccess | ib.ReregTranslation | ib.ReregPD, 0, ib.AccessRemoteWrite, ErrInvalid},
		{"wrapping range", r, ib.ReregTranslation, math.MaxUint64 - 6, 0, ErrInvalid},
		{"address kept, made zero-based", r, ib.ReregAccess, 0, ib.AccessZeroBased, ErrInvalid},
		{"fast-registration region", fast, ib.ReregAccess, 0, 0, ErrInvalid},
		{"other device's region", other, ib.ReregAccess, 0, 0, ErrInvalid},
	} {
		if err := tab.Reregister(c.r, c.flags, pd2, buf, c.iova, c.access); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	w := mustWindow(t, tab, ib.MWType1)
	_, v := tab.Bind(w, qp1, 0, r, iova, 8, ib.AccessRemoteRead)
	wantAccessError(t, "bind", v, ib.VendorNone)
	if err := tab.Reregister(r, ib.ReregPD, pd2, nil, 0, 0); !errors.Is(err, ErrBusy) {
		t.Errorf("with a window bound: %v, want ErrBusy", err)
	}
	if r.RKey() != key || r.PD() != pd1 || r.Length() != 32 || r.Access() != fullAccess {
		t.Error("a refused re-registration changed the region")
	}
	wantRemote(t, tab, key, iova, 32, ib.AccessRemoteWrite, ib.VendorNone)
}

func TestDeregister(t *testing.T) {
	tab := newTestTable(10)
	r := mustRegister(t, tab, make([]byte, 32), iova, fullAccess)
	if err := newTestTable(11).Deregister(r); !errors.Is(err, ErrInvalid) {
		t.Errorf("through another table: %v", err)
	}
	if err := tab.Deregister(r); err != nil {
		t.Fatal(err)
	}
	wantRemote(t, tab, r.RKey(), iova, 1, ib.AccessRemoteRead, ib.VendorKey)
	wantLocal(t, tab, ib.SGE{Addr: iova, Length: 1, LKey: r.LKey()}, 0, ib.VendorKey)
	if err := tab.Deregister(r); !errors.Is(err, ErrGone) {
		t.Errorf("twice: %v, want ErrGone", err)
	}
	if err := tab.Reregister(r, ib.ReregPD, pd1, nil, 0, 0); !errors.Is(err, ErrGone) {
		t.Errorf("rereg afterwards: %v, want ErrGone", err)
	}
	if r.Length() != 32 || r.entry.Load().mem != nil {
		t.Error("the attributes must stay and the memory be let go")
	}
}
