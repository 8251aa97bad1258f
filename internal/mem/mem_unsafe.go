package mem

import "unsafe"

// aligned8 reports whether b starts at a multiple of 8 in the address space.
func aligned8(b []byte) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))&7 == 0
}

// word returns the first 8 bytes of b as a word for sync/atomic. b is aligned8
// and has 8 bytes.
func word(b []byte) *uint64 {
	return (*uint64)(unsafe.Pointer(unsafe.SliceData(b)))
}
