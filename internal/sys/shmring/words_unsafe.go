// SPDX-License-Identifier: BSD-2-Clause

package shmring

import (
	"sync/atomic"
	"unsafe"
)

// word returns the 8 bytes at off, which is a multiple of 8, of page-aligned
// memory.
func word(b []byte, off int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&b[off : off+8][0]))
}

// addressOf returns the address of b for a reader outside Go. It is no Go memory.
func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// Memory is the address of the struct vb_board, nil of a nil Board.
func (b *Board) Memory() unsafe.Pointer {
	if b == nil {
		return nil
	}
	return unsafe.Pointer(b.shared)
}
