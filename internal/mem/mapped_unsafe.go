// SPDX-License-Identifier: BSD-2-Clause

//go:build linux

package mem

import (
	"sync"
	"syscall"
	"unsafe"
)

// probePages is the number of pages of one call of mincore(2).
const probePages = 1 << 15

var probes = sync.Pool{New: func() any { return new([probePages]byte) }}

// Mapped reports whether all of the n bytes at an address are mapped. It touches
// no page.
func Mapped(at, n uintptr) bool {
	page := uintptr(syscall.Getpagesize())
	end := at + n
	at &^= page - 1
	v := probes.Get().(*[probePages]byte)
	defer probes.Put(v)
	for at < end {
		k := min(end-at, probePages*page)
		if _, _, errno := syscall.Syscall(syscall.SYS_MINCORE, at,
			k, uintptr(unsafe.Pointer(v))); errno == syscall.ENOMEM {
			return false
		} // EAGAIN and the like say nothing about the range
		at += k
		if at == 0 {
			break // the end of the address space
		}
	}
	return true
}
