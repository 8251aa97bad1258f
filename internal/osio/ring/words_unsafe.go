package ring

import (
	"sync/atomic"
	"unsafe"
)

// word returns the 8 bytes at off, which is a multiple of 8, of page-aligned
// memory.
func word(b []byte, off int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&b[off : off+8][0]))
}
