// SPDX-License-Identifier: BSD-2-Clause

package mem

import (
	"bytes"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"verbena/ib"
	"verbena/internal/testkit/pages"
)

// pieces are ways to register the same memory.
var pieces = map[string]func(t *testing.T, tab *Table, b []byte) *Region{
	"one": func(t *testing.T, tab *Table, b []byte) *Region { return mustRegister(t, tab, b, iova, fullAccess) },
	"many": func(t *testing.T, tab *Table, b []byte) *Region {
		return mustFast(t, tab, [][]byte{b[:1000], b[1000:pages.Size], b[pages.Size:]}, iova, fullAccess)
	},
}

// TestUnmappedTarget: bytes written where nothing is mapped go nowhere and are counted. The bytes
// around them are placed.
func TestUnmappedTarget(t *testing.T) {
	page := pages.Size
	for name, register := range pieces {
		tab := newTestTable(1)
		b := pages.New(t, 3)
		r := register(t, tab, b)
		b.Unmap(t, 1, 1)
		want := bytes.Repeat([]byte{7}, 2*page)
		was := Unplaced()
		s, v := tab.Remote(pd1, qp1, r.RKey(), iova+uint64(page/2), uint32(2*page), ib.AccessRemoteWrite)
		wantAccessError(t, name, v, ib.VendorNone)
		if !s.CopyIn(0, want) {
			t.Errorf("%s: not taken", name)
		}
		if n := Unplaced() - was; n != uint64(page) {
			t.Errorf("%s: %d bytes counted, want %d", name, n, page)
		}
		if !bytes.Equal(b[page/2:page], want[:page/2]) || !bytes.Equal(b[2*page:2*page+page/2], want[:page/2]) || b[page/2-1] != 0 || b[2*page+page/2] != 0 {
			t.Errorf("%s: what is mapped has not what was written", name)
		}
		was = Unplaced()
		each := make([]byte, 2*page)
		for i := range each {
			each[i] = byte(i >> 8)
		}
		if s.CopyInEach(each, page/4, page/4, 8) != 8 || Unplaced()-was != uint64(page) {
			t.Errorf("%s: %d bytes of pieces counted, want %d", name, Unplaced()-was, page)
		}
		if !bytes.Equal(b[page/2:page], each[:page/2]) || !bytes.Equal(b[2*page:2*page+page/2], each[3*page/2:]) {
			t.Errorf("%s: what is mapped has not the pieces that were written", name)
		}
		if s.CopyOut(0, make([]byte, 2*page)) {
			t.Errorf("%s: read", name)
		}
		s.Release()
		v, ok := tab.PutLocal(new(LastKey), pd1, ib.SGE{Addr: iova + uint64(page), Length: 100, LKey: r.LKey()}, want[:100])
		if v != ib.VendorNone || !ok || Unplaced()-was != uint64(page)+100 {
			t.Errorf("%s: a receive: %v, %v, %d bytes counted", name, v, ok, Unplaced()-was)
		}

		word, v := tab.Remote(pd1, qp1, r.RKey(), iova+uint64(page), 8, ib.AccessRemoteAtomic)
		wantAccessError(t, name, v, ib.VendorNone)
		if !word.Store8(1) {
			t.Errorf("%s: ATOMIC_WRITE not taken", name)
		}
		if _, ok := word.FetchAdd(1); ok { // nobody knows the old value
			t.Errorf("%s: FETCH_AND_ADD answered", name)
		}
		if _, ok := word.CompareSwap(0, 1); ok {
			t.Errorf("%s: CMP_AND_SWP answered", name)
		}
		word.Release()

		// Mapped anew it is the key's again.
		b.Renew(t, 1, 1)
		s, _ = tab.Remote(pd1, qp1, r.RKey(), iova+uint64(page), 1, ib.AccessRemoteWrite)
		if !s.CopyIn(0, want[:1]) || b[page] != 7 {
			t.Errorf("%s: mapped anew: %d", name, b[page])
		}
		s.Release()
	}
}

// TestProtectedTarget: memory that is mapped and may not be written is refused. The
// application would miss the bytes.
func TestProtectedTarget(t *testing.T) {
	pages.WantProtected(t)
	for name, register := range pieces {
		tab := newTestTable(1)
		b := pages.New(t, 3)
		r := register(t, tab, b)
		b.Unmap(t, 1, 1)
		b.Protect(t, 2, 1)
		was := Unplaced()
		s, v := tab.Remote(pd1, qp1, r.RKey(), iova+uint64(2*pages.Size), 10, ib.AccessRemoteWrite)
		wantAccessError(t, name, v, ib.VendorNone)
		if s.CopyIn(0, make([]byte, 10)) || Unplaced() != was {
			t.Errorf("%s: taken", name)
		}
		s.Release()
		s, v = tab.Remote(pd1, qp1, r.RKey(), iova, uint32(3*pages.Size), ib.AccessRemoteWrite)
		wantAccessError(t, name, v, ib.VendorNone)
		if s.CopyIn(0, make([]byte, 3*pages.Size)) {
			t.Errorf("%s: behind what is not mapped: taken", name)
		}
		s.Release()
	}
}

// TestShorterFile: memory that a file has no bytes for any more is mapped still.
func TestShorterFile(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(int64(pages.Size)); err != nil {
		t.Fatal(err)
	}
	b, err := unix.Mmap(int(f.Fd()), 0, pages.Size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(b)
	tab := newTestTable(1)
	r := mustRegister(t, tab, b, iova, fullAccess)
	if err := f.Truncate(0); err != nil {
		t.Fatal(err)
	}
	if v, ok := tab.PutLocal(new(LastKey), pd1, ib.SGE{Addr: iova, Length: 10, LKey: r.LKey()}, make([]byte, 10)); v != ib.VendorNone || ok {
		t.Errorf("written: %v, %v", v, ok)
	}
}
