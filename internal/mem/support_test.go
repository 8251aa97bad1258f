// SPDX-License-Identifier: BSD-2-Clause

package mem

import (
	"math/rand/v2"
	"testing"

	"verbena/ib"
)

const (
	pd1  PD     = 1
	pd2  PD     = 2
	qp1  ib.QPN = 0x11
	qp2  ib.QPN = 0x12
	iova        = 0x10000

	fullAccess = ib.AccessLocalWrite | ib.AccessRemote | ib.AccessMWBind
)

func newTestTable(seed uint64) *Table {
	return NewTable(rand.New(rand.NewPCG(seed, 1)).Uint32)
}

func mustRegister(t testing.TB, tab *Table, buf []byte, iova uint64, access ib.Access) *Region {
	t.Helper()
	r, err := tab.Register(pd1, buf, iova, access)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// mustFast returns a valid fast-registration region over segs.
func mustFast(t testing.TB, tab *Table, segs [][]byte, iova uint64, access ib.Access) *Region {
	t.Helper()
	r, err := tab.AllocFast(pd1, len(segs))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := r.Map(segs, iova); n != len(segs) || err != nil {
		t.Fatalf("Map took %d of %d segments: %v", n, len(segs), err)
	}
	wantAccessError(t, "FastRegister", tab.FastRegister(pd1, r, r.RKey(), access), ib.VendorNone)
	return r
}

func mustWindow(t testing.TB, tab *Table, typ ib.MWType) *Window {
	t.Helper()
	w, err := tab.AllocWindow(pd1, typ)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func wantAccessError(t testing.TB, what string, got, want AccessError) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// wantRemote and wantLocal open memory, compare the verdict and let go again.
func wantRemote(t testing.TB, tab *Table, key ib.RKey, va uint64, n uint32, need ib.Access, want AccessError) {
	t.Helper()
	s, v := tab.Remote(pd1, qp1, key, va, n, need)
	if v != want {
		t.Errorf("%d bytes at %#x of key %#x for %v: %v, want %v", n, va, key, need, v, want)
	}
	s.Release()
}

func wantLocal(t testing.TB, tab *Table, sge ib.SGE, need ib.Access, want AccessError) {
	t.Helper()
	s, v := tab.Local(pd1, sge, need)
	if v != want {
		t.Errorf("%+v for %v: %v, want %v", sge, need, v, want)
	}
	s.Release()
}

// words returns n bytes that start at a multiple of 8.
func words(n int) []byte {
	b := make([]byte, n+8)
	for !aligned8(b) {
		b = b[1:]
	}
	return b[:n:n]
}
