// SPDX-License-Identifier: BSD-2-Clause

package mem

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"verbena/ib"
	"verbena/internal/testkit/pages"
)

// gone returns registered memory of two pages whose second is unmapped again.
func gone(t *testing.T) (*Table, []byte, *Region) {
	t.Helper()
	page := unix.Getpagesize()
	b, err := unix.Mmap(-1, 0, 2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	tab := newTestTable(1)
	r, err := tab.Register(1, b, 0x1000, ib.AccessLocalWrite|ib.AccessRemoteAtomic|ib.AccessRemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Mprotect(b[page:], unix.PROT_NONE); err != nil { // as unmapped, but nobody else gets the addresses
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(b) })
	return tab, b, r
}

func TestMemoryThatIsGone(t *testing.T) {
	pages.WantProtected(t)
	tab, b, r := gone(t)
	page := len(b) / 2
	open := func(off, n int) Span {
		s, v := tab.Local(1, ib.SGE{Addr: 0x1000 + uint64(off), Length: uint32(n), LKey: r.LKey()}, ib.AccessLocalWrite)
		if v != ib.VendorNone {
			t.Fatal(v)
		}
		return s
	}
	s := open(page-8, 16)
	if s.CopyIn(0, make([]byte, 16)) {
		t.Error("CopyIn to memory that is gone: ok")
	}
	if s.CopyOut(0, make([]byte, 16)) {
		t.Error("CopyOut from memory that is gone: ok")
	}
	half := open(page/2, page)
	if half.StreamOut(0, make([]byte, page)) {
		t.Error("StreamOut from memory that is gone: ok")
	}
	half.Release()
	if !s.CopyIn(0, []byte("is there")) {
		t.Error("CopyIn to what is there: not ok")
	}
	got := make([]byte, 8)
	if !s.CopyOut(0, got) || !bytes.Equal(got, []byte("is there")) {
		t.Errorf("CopyOut of what is there: %q", got)
	}
	sum := func(n uint32, p []byte) uint32 {
		for _, v := range p {
			n += uint32(v)
		}
		return n
	}
	if _, ok := Sum(1, s.AppendSlices(nil, 0, 16)[0], sum); ok {
		t.Error("Sum over memory that is gone: ok")
	}
	if n, ok := Sum(1, []byte{2, 3}, sum); n != 6 || !ok {
		t.Errorf("Sum of what is there: %d, %v", n, ok)
	}
	s.Release()

	w := open(page, 8)
	if _, ok := w.CompareSwap(0, 1); ok {
		t.Error("CompareSwap: ok")
	}
	if _, ok := w.FetchAdd(1); ok {
		t.Error("FetchAdd: ok")
	}
	if w.Store8(1) {
		t.Error("Store8: ok")
	}
	w.Release()
	if err := tab.Deregister(r); err != nil {
		t.Error(err)
	}
}

// A panic that is no fault is a mistake of ours and is not swallowed.
func TestOtherPanicsAreNotFaults(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a panic of update was swallowed")
		}
	}()
	Sum(0, []byte{1}, func(_ uint32, p []byte) uint32 { return uint32(p[len(p)]) })
}
