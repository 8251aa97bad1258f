// SPDX-License-Identifier: BSD-2-Clause

package mem

import (
	"bytes"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"verbena/ib"
	"verbena/internal/testkit/pages"
)

const odpRights = ib.AccessLocalWrite | ib.AccessRemoteWrite | ib.AccessRemoteRead | ib.AccessOnDemand

// A region of on-demand paging fails what it cannot page in. Another region takes bytes for memory
// that has gone, as a NIC does, which has it pinned.
func TestOnDemandMemoryIsNotMapped(t *testing.T) {
	table := newTestTable(1)
	m := pages.New(t, 3)
	m.Unmap(t, 1, 1)
	b := []byte(m)
	for _, access := range []ib.Access{odpRights, odpRights &^ ib.AccessOnDemand} {
		want := !access.Has(ib.AccessOnDemand)
		r, err := table.Register(1, b, 0, access)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			at, n int
			ok    bool
		}{{0, pageBytes, true}, {pageBytes - 1, 1, true}, {pageBytes - 1, 2, want}, {pageBytes, 8, want}, {2 * pageBytes, pageBytes, true}} {
			s, v := table.Remote(1, 1, r.RKey(), uint64(c.at), uint32(c.n), ib.AccessRemoteWrite)
			if v != ib.VendorNone {
				t.Fatal(v)
			}
			if ok := s.CopyIn(0, make([]byte, c.n)); ok != c.ok {
				t.Errorf("%v: %d bytes to %d: %v, want %v", access, c.n, c.at, ok, c.ok)
			}
			if c.n == 8 {
				if ok := s.Store8(1); ok != c.ok {
					t.Errorf("%v: a word to %d: %v, want %v", access, c.at, ok, c.ok)
				}
			}
			if got := s.CopyOut(0, make([]byte, c.n)); got != (c.at+c.n <= pageBytes || c.at >= 2*pageBytes) {
				t.Errorf("%v: %d bytes from %d: %v", access, c.n, c.at, got)
			}
			s.Release()
			sge := ib.SGE{Addr: uint64(c.at), Length: uint32(c.n), LKey: r.LKey()}
			if _, ok := table.PutLocal(new(LastKey), 1, sge, make([]byte, c.n)); ok != c.ok {
				t.Errorf("%v: put %d bytes to %d: %v, want %v", access, c.n, c.at, ok, c.ok)
			}
		}
		if err := table.Deregister(r); err != nil {
			t.Error(err)
		}
	}
}

// An implicit region grants what is mapped, wherever that is, but nothing of the Go heap and
// nothing outside of the address space. A collection of garbage finds no fault in its spans.
func TestAddressSpace(t *testing.T) {
	table := newTestTable(1)
	r, err := table.RegisterAddressSpace(1, odpRights)
	if err != nil {
		t.Fatal(err)
	}
	b := pages.New(t, 2)
	b.Unmap(t, 1, 1)
	at := uint64(addressOf(b))
	open := func(va uint64, n uint32) (Span, AccessError) {
		return table.Remote(1, 1, r.RKey(), va, n, ib.AccessRemoteWrite)
	}
	s, v := open(at, uint32(pageBytes))
	if v != ib.VendorNone || !s.CopyIn(3, []byte("abc")) || !bytes.Equal(b[3:6], []byte("abc")) {
		t.Errorf("%v: %q", v, b[:8])
	}
	s.Release()
	object := new([64]byte)
	for _, c := range []struct {
		va     uint64
		placed bool
	}{
		{0, false}, {8, false}, {firstAddress, false}, {1 << 40, false}, {lastAddress - 64, false},
		{lastAddress, false}, {^uint64(0) - 4, false}, {at + uint64(pageBytes), false}, {at, true},
		{uint64(uintptr(unsafe.Pointer(object))), false}, {heap(), false}, {heap() - 4, false}, {heap() + heapBytes - 1, false},
	} {
		s, v := open(c.va, 8)
		runtime.GC() // looks at the span's pointer
		if ok := v == ib.VendorNone && s.CopyIn(0, make([]byte, 8)); ok != c.placed {
			t.Errorf("8 bytes to %#x: %v, %v", c.va, v, ok)
		}
		s.Release()
	}
	// A window of it has no part of the heap either.
	whole, _ := table.RegisterAddressSpace(1, odpRights|ib.AccessMWBind)
	window, _ := table.AllocWindow(1, ib.MWType2)
	for _, c := range []struct {
		start, end uint64
		want       AccessError
	}{
		{firstAddress, lastAddress, ib.VendorBounds}, {heap() - 8, heap() + 1, ib.VendorBounds},
		{heap() + heapBytes - 1, heap() + heapBytes + 1, ib.VendorBounds}, {heap() + heapBytes, lastAddress, ib.VendorNone},
	} {
		if _, v := table.Bind(window, 1, window.RKey(), whole, c.start, c.end-c.start, ib.AccessRemoteWrite); v != c.want {
			t.Errorf("window from %#x to %#x: %v, want %v", c.start, c.end, v, c.want)
		}
	}
	table.FreeWindow(window)
	if err := table.Deregister(whole); err != nil {
		t.Error(err)
	}
	if _, err := table.RegisterAddressSpace(1, ib.AccessRemoteWrite); err == nil {
		t.Error("remote write without local write")
	}
	if err := table.Reregister(r, ib.ReregAccess, 0, nil, 0, odpRights&^ib.AccessRemoteWrite); err != nil {
		t.Error(err)
	}
	if _, v := open(at, 8); v != ib.VendorAccess {
		t.Errorf("after the rights have gone: %v", v)
	}
	if err := table.Deregister(r); err != nil {
		t.Error(err)
	}
}

func TestPrefetch(t *testing.T) {
	pages.WantProtected(t) // qemu-user does not obey madvise either
	table := newTestTable(1)
	b := pages.New(t, 4)
	b.Unmap(t, 3, 1)
	onDemand, _ := table.Register(1, b, 0, odpRights)
	readOnly, _ := table.Register(1, b, 0, ib.AccessOnDemand)
	plain, _ := table.Register(1, b, 0, ib.AccessLocalWrite)
	of, _ := table.Register(1, make([]byte, 8), 0, ib.AccessMWBind)
	window, _ := table.AllocWindow(1, ib.MWType2)
	if _, v := table.Bind(window, 1, window.RKey(), of, 0, 8, ib.AccessRemoteRead); v != ib.VendorNone {
		t.Fatal(v)
	}
	for _, c := range []struct {
		pd     PD
		key    ib.LKey
		at, n  int
		advice ib.MRAdvice
		want   error
	}{
		{1, onDemand.LKey(), 0, 0, ib.AdvicePrefetch, nil},
		{1, onDemand.LKey(), pageBytes - 1, 2, ib.AdvicePrefetchNoFault, nil},
		{1, onDemand.LKey(), pageBytes - 1, 2, ib.AdvicePrefetch, nil},
		{1, onDemand.LKey(), 5, 3*pageBytes - 5, ib.AdvicePrefetchWrite, nil},
		{1, readOnly.LKey(), 0, pageBytes, ib.AdvicePrefetch, nil},
		{1, onDemand.LKey(), 2 * pageBytes, 2 * pageBytes, ib.AdvicePrefetch, ErrFault},
		{1, onDemand.LKey(), 3 * pageBytes, pageBytes, ib.AdvicePrefetchWrite, ErrFault},
		{1, onDemand.LKey(), 3 * pageBytes, pageBytes + 1, ib.AdvicePrefetchNoFault, ErrFault},
		{1, readOnly.LKey(), 0, pageBytes, ib.AdvicePrefetchWrite, ErrReadOnly},
		{1, plain.LKey(), 0, pageBytes, ib.AdvicePrefetch, ErrNotOnDemand},
		{2, onDemand.LKey(), 0, pageBytes, ib.AdvicePrefetch, ErrDomain},
		{1, onDemand.LKey() + 1, 0, pageBytes, ib.AdvicePrefetch, ErrNoKeyEntry},
		{1, ib.LKey(window.RKey()), 0, pageBytes, ib.AdvicePrefetch, ErrNotOnDemand},
		{1, ^ib.LKey(0), 0, pageBytes, ib.AdvicePrefetch, ErrNoKeyEntry},
	} {
		if err := table.Prefetch(c.pd, ib.SGE{Addr: uint64(c.at), Length: uint32(c.n), LKey: c.key}, c.advice); err != c.want {
			t.Errorf("%d bytes at %d, advice %d: %v, want %v", c.n, c.at, c.advice, err, c.want)
		}
	}
	if n := resident(t, b[:3*pageBytes]); n != 3 {
		t.Errorf("%d pages are in memory, want 3", n)
	}
	if onDemand.gate.held.Load() != 0 || readOnly.gate.held.Load() != 0 {
		t.Error("a region is still held")
	}
}

// touch is for systems whose madvise(2) cannot do it.
func TestTouch(t *testing.T) {
	b := pages.New(t, 4)
	b[5], b[pageBytes] = 7, 8
	if err := unix.Mprotect(b[2*pageBytes:3*pageBytes], unix.PROT_READ); err != nil {
		t.Fatal(err)
	}
	b.Unmap(t, 3, 1)
	for _, c := range []struct {
		at, n       int
		read, write bool
	}{{0, 0, true, true}, {5, 1, true, true}, {3, 2*pageBytes - 3, true, true}, {1, 3*pageBytes - 1, true, false}, {0, 4 * pageBytes, false, false}} {
		if read := touch(b[c.at:c.at+c.n], false); read != c.read {
			t.Errorf("%d bytes at %d: read %v", c.n, c.at, read)
		}
		if raceEnabled && !c.write {
			continue // its atomics are C code, which cannot go on after a fault
		}
		if write := touch(b[c.at:c.at+c.n], true); write != c.write {
			t.Errorf("%d bytes at %d: written %v", c.n, c.at, write)
		}
	}
	if b[5] != 7 || b[pageBytes] != 8 {
		t.Errorf("the bytes are %d and %d", b[5], b[pageBytes])
	}
}

// resident returns how many pages of b are in memory.
func resident(t *testing.T, b []byte) (n int) {
	t.Helper()
	v := make([]byte, len(b)/pageBytes)
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, addressOf(b), uintptr(len(b)), uintptr(unsafe.Pointer(&v[0]))); errno != 0 {
		t.Fatal(errno)
	}
	for _, in := range v {
		n += int(in & 1)
	}
	return n
}
