// SPDX-License-Identifier: BSD-2-Clause

package mem

import (
	"os"
	"unsafe"
)

// addressOf returns the address of b's first byte.
func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

var pageBytes = os.Getpagesize()

// Bounds of the addresses that applications use on 64-bit systems, and of those where the Go
// runtime has its heap. It makes one arena behind the other, from a random address on. It goes
// elsewhere only if the application has mapped something in between.
const (
	firstAddress = 1 << 16 // vm.mmap_min_addr is not above it
	lastAddress  = 1<<48 - 1
	arenaBytes   = 64 << 20
	heapBytes    = 1 << 38
)

// heapObject is an early object, in the heap's first arena.
var heapObject = new([64]byte)

// addressSpace returns all memory that an application may have, and where in it the Go heap is.
func addressSpace() ([]byte, extent) {
	n := uint64(lastAddress - firstAddress)
	all := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(nil), firstAddress)), n)
	heap := heap() - firstAddress
	return all, extent{heap, heap + heapBytes}
}

func heap() uint64 {
	return max(uint64(addressOf(heapObject[:]))&^(arenaBytes-1), 2*arenaBytes) - arenaBytes
}

// OutOfReach reports whether some of the n bytes at an address are where no memory of a C program
// is: in the first pages, or where the heap of the Go runtime is or may grow to. The runtime ends a
// process that has a pointer to its first page, or to memory of the heap that is no object.
func OutOfReach(at, n uintptr) bool {
	start := heap()
	return at < firstAddress || uint64(at) < start+heapBytes && start < uint64(at)+uint64(n)
}

// untilPage returns how many bytes from the start of b on are in its first page.
func untilPage(b []byte) int { return pageBytes - int(addressOf(b)&uintptr(pageBytes-1)) }

// aligned8 reports whether b starts at a multiple of 8 in the address space.
func aligned8(b []byte) bool {
	return addressOf(b)&7 == 0
}

// wordAround returns the aligned word of 4 bytes that the first byte of b is in.
func wordAround(b []byte) *uint32 {
	p := unsafe.Pointer(unsafe.SliceData(b))
	return (*uint32)(unsafe.Add(p, -int(uintptr(p)&3)))
}

// word returns the first 8 bytes of b as a word for sync/atomic. b is aligned8
// and has 8 bytes.
func word(b []byte) *uint64 {
	return (*uint64)(unsafe.Pointer(unsafe.SliceData(b)))
}
