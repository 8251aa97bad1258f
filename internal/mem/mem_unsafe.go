// SPDX-License-Identifier: BSD-2-Clause

package mem

import (
	"os"
	"unsafe"
)

// addressOf returns the address of b's first byte.
func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

var pageBytes = os.Getpagesize()

// untilPage returns how many bytes from the start of b on are in its first page.
func untilPage(b []byte) int { return pageBytes - int(addressOf(b)&uintptr(pageBytes-1)) }

// aligned8 reports whether b starts at a multiple of 8 in the address space.
func aligned8(b []byte) bool {
	return addressOf(b)&7 == 0
}

// word returns the first 8 bytes of b as a word for sync/atomic. b is aligned8
// and has 8 bytes.
func word(b []byte) *uint64 {
	return (*uint64)(unsafe.Pointer(unsafe.SliceData(b)))
}
