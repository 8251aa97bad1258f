// SPDX-License-Identifier: BSD-2-Clause

package mem

import (
	"errors"
	"testing"

	"verbena/ib"
)

func TestFastRegistrationCycle(t *testing.T) {
	tab := newTestTable(1)
	r, err := tab.AllocFast(pd1, 2)
	if err != nil {
		t.Fatal(err)
	}
	k0 := r.RKey()
	wantRemote(t, tab, k0, 0, 1, ib.AccessRemoteRead, ib.VendorKey)
	wantLocal(t, tab, ib.SGE{Length: 1, LKey: r.LKey()}, 0, ib.VendorKey)

	first := [][]byte{make([]byte, 4), {}, make([]byte, 4), make([]byte, 4)}
	if n, err := r.Map(first, iova); n != 3 || err != nil {
		t.Fatalf("Map took %d: %v, want 3: room for two pieces, the empty one needs none", n, err)
	}
	wantRemote(t, tab, k0, iova, 1, ib.AccessRemoteRead, ib.VendorKey) // Map alone opens nothing

	k1 := k0&^0xff | 0x7e
	wantAccessError(t, "other slot's key", tab.FastRegister(pd1, r, k1^0x100, fullAccess), ib.VendorKey)
	wantAccessError(t, "on demand", tab.FastRegister(pd1, r, k1, fullAccess|ib.AccessOnDemand), ib.VendorAccess)
	wantAccessError(t, "other domain", tab.FastRegister(pd2, r, k1, fullAccess), ib.VendorPD)
	wantAccessError(t, "illegal rights", tab.FastRegister(pd1, r, k1, ib.AccessRemoteWrite), ib.VendorAccess)
	wantAccessError(t, "register", tab.FastRegister(pd1, r, k1, fullAccess), ib.VendorNone)
	if r.RKey() != k1 || uint32(r.LKey()) != uint32(k1) || r.Addr() != iova || r.Length() != 8 || r.Access() != fullAccess {
		t.Errorf("keys %#x %#x addr %#x length %d access %v", r.RKey(), r.LKey(), r.Addr(), r.Length(), r.Access())
	}
	wantRemote(t, tab, k1, iova+2, 4, ib.AccessRemoteWrite, ib.VendorNone)
	wantRemote(t, tab, k1, iova+5, 4, ib.AccessRemoteWrite, ib.VendorBounds)
	wantLocal(t, tab, ib.SGE{Addr: iova, Length: 8, LKey: r.LKey()}, ib.AccessLocalWrite, ib.VendorNone)
	wantAccessError(t, "register while valid", tab.FastRegister(pd1, r, k1, fullAccess), ib.VendorBound)

	// A Map does not touch the mapping in force.
	second := make([]byte, 16)
	if _, err := r.Map([][]byte{second}, 2*iova); err != nil {
		t.Fatal(err)
	}
	wantRemote(t, tab, k1, iova, 8, ib.AccessRemoteWrite, ib.VendorNone)

	wantAccessError(t, "invalidate in another domain", tab.Invalidate(pd2, qp1, k1, false), ib.VendorPD)
	wantAccessError(t, "invalidate the key before", tab.Invalidate(pd1, qp1, k0, false), ib.VendorKey)
	wantAccessError(t, "remote invalidate", tab.Invalidate(pd1, qp1, k1, true), ib.VendorNone)
	wantRemote(t, tab, k1, iova, 1, ib.AccessRemoteRead, ib.VendorKey)
	wantAccessError(t, "remote invalidate again", tab.Invalidate(pd1, qp1, k1, true), ib.VendorKey)
	wantAccessError(t, "LOCAL_INV behind it", tab.Invalidate(pd1, qp1, k1, false), ib.VendorNone)

	k2 := k1 + 1
	wantAccessError(t, "register the second map", tab.FastRegister(pd1, r, k2, ib.AccessRemoteRead|ib.AccessZeroBased), ib.VendorNone)
	wantRemote(t, tab, k1, iova, 1, ib.AccessRemoteRead, ib.VendorKey)
	wantRemote(t, tab, k2, 0, 16, ib.AccessRemoteRead, ib.VendorNone)
	wantRemote(t, tab, k2, 2*iova, 1, ib.AccessRemoteRead, ib.VendorBounds)

	// Registered again without a Map it has the same memory at the mapped address.
	wantAccessError(t, "LOCAL_INV", tab.Invalidate(pd1, qp1, k2, false), ib.VendorNone)
	wantAccessError(t, "register once more", tab.FastRegister(pd1, r, k2, ib.AccessRemoteRead), ib.VendorNone)
	wantRemote(t, tab, k2, 2*iova, 16, ib.AccessRemoteRead, ib.VendorNone)

	if err := tab.Deregister(r); err != nil {
		t.Fatal(err)
	}
	wantAccessError(t, "register when gone", tab.FastRegister(pd1, r, k2, 0), ib.VendorKey)
	wantAccessError(t, "invalidate when gone", tab.Invalidate(pd1, qp1, k2, false), ib.VendorKey)
	if _, err := r.Map([][]byte{second}, 0); !errors.Is(err, ErrGone) {
		t.Errorf("Map when gone: %v", err)
	}
}

func TestFastRegistrationIsForItsRegionsOnly(t *testing.T) {
	tab := newTestTable(2)
	plain := mustRegister(t, tab, make([]byte, 8), iova, fullAccess)
	if _, err := plain.Map([][]byte{make([]byte, 8)}, 0); !errors.Is(err, ErrInvalid) {
		t.Errorf("Map of a plain region: %v", err)
	}
	wantAccessError(t, "REG_MR of a plain region", tab.FastRegister(pd1, plain, plain.RKey(), 0), ib.VendorKey)
	for _, remote := range []bool{false, true} {
		wantAccessError(t, "invalidate a plain region", tab.Invalidate(pd1, qp1, plain.RKey(), remote), ib.VendorAccess)
	}
	wantRemote(t, tab, plain.RKey(), iova, 8, ib.AccessRemoteRead, ib.VendorNone)
	for _, n := range []int{0, -1} {
		if _, err := tab.AllocFast(pd1, n); !errors.Is(err, ErrInvalid) {
			t.Errorf("AllocFast of %d segments: %v", n, err)
		}
	}
	for _, key := range []ib.RKey{0, plain.RKey() ^ 1<<31, ^ib.RKey(0)} {
		wantAccessError(t, "invalidate no key", tab.Invalidate(pd1, qp1, key, true), ib.VendorKey)
	}
}
