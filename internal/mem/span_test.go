// SPDX-License-Identifier: BSD-2-Clause

package mem

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"verbena/ib"
)

// TestSpanPieces reads and writes every range of a region in several pieces
// and compares with the same bytes in one.
func TestSpanPieces(t *testing.T) {
	tab := newTestTable(1)
	rng := rand.New(rand.NewPCG(2, 2))
	flat := make([]byte, 41)
	segs := [][]byte{make([]byte, 7), make([]byte, 1), make([]byte, 16), make([]byte, 1), make([]byte, 3), make([]byte, 13)}
	r := mustFast(t, tab, segs, iova, fullAccess)
	for off := range len(flat) {
		for n := range len(flat) - off + 1 {
			s, v := tab.Remote(pd1, qp1, r.RKey(), iova+uint64(off), uint32(n), ib.AccessRemoteWrite)
			if v != ib.VendorNone || s.Len() != n {
				t.Fatalf("%d bytes at %d: %v, span of %d", n, off, v, s.Len())
			}
			for i := range n {
				flat[off+i] = byte(rng.Uint32())
			}
			cut := rng.IntN(n + 1)
			s.CopyIn(cut, flat[off+cut:off+n])
			s.CopyIn(0, flat[off:off+cut])
			if got := bytes.Join(segs, nil); !bytes.Equal(got, flat) {
				t.Fatalf("after writing %d bytes at %d:\n%x, want\n%x", n, off, got, flat)
			}
			if each := 1 + rng.IntN(4); n >= each {
				k, stride := n/each, each+rng.IntN(3)
				src := make([]byte, k*stride)
				for i := range k {
					copy(src[i*stride:], flat[off+i*each:off+(i+1)*each])
				}
				if s.CopyIn(0, make([]byte, n-n%each)); s.CopyInEach(src, each, stride, k) != k ||
					!bytes.Equal(bytes.Join(segs, nil), flat) {
					t.Fatalf("%d pieces of %d bytes, %d apart, at %d", k, each, stride, off)
				}
			}
			got := make([]byte, n-cut)
			s.CopyOut(cut, got)
			if !bytes.Equal(got, flat[off+cut:off+n]) {
				t.Fatalf("CopyOut(%d) of %d bytes at %d: %x", cut, n, off, got)
			}
			slices := s.AppendSlices(nil, cut, n-cut)
			if !bytes.Equal(bytes.Join(slices, nil), got) {
				t.Fatalf("AppendSlices(%d) of %d bytes at %d: %x", cut, n, off, slices)
			}
			if cut == 0 && n > 0 && !bytes.Equal(s.Piece(), slices[0]) {
				t.Fatalf("the first piece of %d bytes at %d: %x", n, off, s.Piece())
			}
			for _, b := range slices {
				if len(b) == 0 || cap(b) != len(b) {
					t.Fatalf("AppendSlices gives a piece of length %d, capacity %d", len(b), cap(b))
				}
			}
			s.Release()
		}
	}
	if !r.Idle() {
		t.Error("spans left")
	}
}

func TestSpanAtomics(t *testing.T) {
	tab := newTestTable(2)
	r := mustRegister(t, tab, words(16), iova, fullAccess)
	s, v := tab.Remote(pd1, qp1, r.RKey(), iova+8, 8, ib.AccessRemoteAtomic)
	wantAccessError(t, "open", v, ib.VendorNone)
	defer s.Release()
	s.Store8(5)
	if got, _ := s.CompareSwap(4, 9); got != 5 {
		t.Errorf("CompareSwap that fails returned %d", got)
	}
	if got, _ := s.CompareSwap(5, 1<<63); got != 5 {
		t.Errorf("CompareSwap returned %d", got)
	}
	if got, _ := s.FetchAdd(1 << 63); got != 1<<63 {
		t.Errorf("FetchAdd returned %#x", got)
	}
	if got, _ := s.FetchAdd(^uint64(0)); got != 0 { // wraps
		t.Errorf("FetchAdd returned %#x", got)
	}
	if got, _ := s.CompareSwap(^uint64(0), 7); got != ^uint64(0) {
		t.Errorf("CompareSwap returned %#x", got)
	}
	s.Hold()
	s.Release()
	if r.Idle() {
		t.Error("Hold and Release do not match")
	}
}

func TestSpanAligned8AcrossPieces(t *testing.T) {
	tab := newTestTable(3)
	b := words(32)
	r := mustFast(t, tab, [][]byte{b[:12], b[16:32]}, iova, fullAccess)
	wantRemote(t, tab, r.RKey(), iova, 8, ib.AccessRemoteAtomic, ib.VendorNone)
	wantRemote(t, tab, r.RKey(), iova+8, 8, ib.AccessRemoteAtomic, ib.VendorAlign)  // in two pieces
	wantRemote(t, tab, r.RKey(), iova+16, 8, ib.AccessRemoteAtomic, ib.VendorAlign) // memory not aligned
	wantRemote(t, tab, r.RKey(), iova+8, 8, ib.AccessRemoteWrite, ib.VendorNone)
}

func TestSpanMisuse(t *testing.T) {
	tab := newTestTable(4)
	b := words(32)
	one := mustRegister(t, tab, b, iova, fullAccess)
	two := mustFast(t, tab, [][]byte{b[:16], b[16:]}, iova, fullAccess)
	wantPanic := func(what string, f func()) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Errorf("%s did not panic", what)
			}
		}()
		f()
	}
	for _, r := range []*Region{one, two} {
		s, _ := tab.Remote(pd1, qp1, r.RKey(), iova+10, 10, ib.AccessRemoteWrite)
		wantPanic("CopyIn beyond the end", func() { s.CopyIn(1, make([]byte, 10)) })
		wantPanic("CopyOut beyond the end", func() { s.CopyOut(11, nil) })
		wantPanic("CopyOut before the start", func() { s.CopyOut(-1, make([]byte, 1)) })
		wantPanic("AppendSlices beyond the end", func() { s.AppendSlices(nil, 9, 2) })
		wantPanic("FetchAdd", func() { s.FetchAdd(1) })
		s.Release()
		wantPanic("second Release", func() { s.Release() })
	}
	var zero Span
	zero.Hold()
	zero.Release()
	if zero.Len() != 0 || zero.Aligned8() || zero.AppendSlices(nil, 0, 0) != nil {
		t.Error("the zero span is not empty")
	}
}
