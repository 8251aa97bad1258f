// SPDX-License-Identifier: BSD-2-Clause

package window

import (
	"encoding/binary"
	"unsafe"
)

func aligned(b []byte) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%Alignment == 0
}

// word4 and word8 return the first bytes of b, which are aligned, as a word for
// sync/atomic.
func word4(b []byte) *uint32 { return (*uint32)(unsafe.Pointer(unsafe.SliceData(b))) }
func word8(b []byte) *uint64 { return (*uint64)(unsafe.Pointer(unsafe.SliceData(b))) }

// line and lineOf return the first bytes of b, which are aligned, and p as words.
func line(b []byte) *[LineBytes / 8]uint64 {
	return (*[LineBytes / 8]uint64)(unsafe.Pointer(unsafe.SliceData(b)))
}
func lineOf(p *[LineBytes]byte) *[LineBytes / 8]uint64 {
	return (*[LineBytes / 8]uint64)(unsafe.Pointer(p))
}

// littleEndian4 and littleEndian8 turn a word as this machine has it into one
// of the format, and back.
func littleEndian4(v uint32) uint32 {
	return binary.LittleEndian.Uint32((*[4]byte)(unsafe.Pointer(&v))[:])
}
func littleEndian8(v uint64) uint64 {
	return binary.LittleEndian.Uint64((*[8]byte)(unsafe.Pointer(&v))[:])
}

// PlaceOf returns at which offset of the window b lies; ok is false if it does
// not, or not all of it.
func (w *Window) PlaceOf(b []byte) (at uint64, ok bool) {
	at = uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))) - uintptr(
		unsafe.Pointer(unsafe.SliceData(w.mem))))
	return at, len(b) > 0 && w.Contains(at, uint64(len(b)))
}
