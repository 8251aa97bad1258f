// SPDX-License-Identifier: BSD-2-Clause

//go:build linux

package pages

import (
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Size is that of a page, in bytes.
var Size = unix.Getpagesize()

// Memory is whole pages, mapped for the test.
type Memory []byte

// far is an address that the system gives to nothing by itself: not to Go's heap, to stacks or to
// libraries. So memory unmapped there stays so.
var far atomic.Uintptr

const (
	farFrom  = 0x410000000000
	distance = 1 << 30
)

// New maps pages, which may be read and written.
func New(t testing.TB, pages int) Memory {
	t.Helper()
	p, err := unix.MmapPtr(-1, 0, address(farFrom+far.Add(distance)), uintptr(pages*Size),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	m := Memory(unsafe.Slice((*byte)(p), pages*Size))
	t.Cleanup(func() { m.Unmap(t, 0, pages) })
	return m
}

// address is a hint for the system, no pointer.
func address(at uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&at)) }

// Unmap takes n pages from the first one on away. They may be gone already.
func (m Memory) Unmap(t testing.TB, first, n int) {
	t.Helper()
	if err := unix.MunmapPtr(unsafe.Pointer(&m[first*Size]), uintptr(n*Size)); err != nil {
		t.Fatal(err)
	}
}

// Protect has n pages from the first one on mapped, and not to be touched.
func (m Memory) Protect(t testing.TB, first, n int) {
	t.Helper()
	if err := unix.Mprotect(m[first*Size:][:n*Size], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
}

// Renew maps n pages from the first one on anew: zeroes.
func (m Memory) Renew(t testing.TB, first, n int) {
	t.Helper()
	if _, err := unix.MmapPtr(-1, 0, unsafe.Pointer(&m[first*Size]), uintptr(n*Size),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_FIXED); err != nil {
		t.Fatal(err)
	}
}

// WantProtected skips the test where mincore(2) takes pages that may not be reached for
// pages that are not mapped. qemu-user does.
func WantProtected(t testing.TB) {
	t.Helper()
	b, err := unix.Mmap(-1, 0, Size, unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(b)
	var v [1]byte
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(unsafe.SliceData(b))),
		uintptr(Size), uintptr(unsafe.Pointer(&v)))
	if errno == unix.ENOMEM {
		t.Skip("mincore does not know protected pages here: is this qemu-user?")
	}
}
