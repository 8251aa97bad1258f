// SPDX-License-Identifier: BSD-2-Clause

//go:build linux

package mem

import (
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"verbena/ib"
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

// populate pages in b, for writing if the advice is so. It returns false if a part is not mapped,
// or may not be written.
func populate(b []byte, advice ib.MRAdvice) bool {
	if len(b) == 0 {
		return true
	}
	at := addressOf(b)
	start := at &^ uintptr(pageBytes-1)
	n := at + uintptr(len(b)) - start
	how := uintptr(unix.MADV_POPULATE_READ)
	switch advice {
	case ib.AdvicePrefetchNoFault:
		return Mapped(start, n)
	case ib.AdvicePrefetchWrite:
		how = unix.MADV_POPULATE_WRITE
	}
	for {
		switch _, _, errno := syscall.Syscall(syscall.SYS_MADVISE, start, n, how); errno {
		case 0:
			return true
		case syscall.EINTR, syscall.EAGAIN:
		case syscall.EINVAL: // before Linux 5.14, or a mapping of a device
			return touch(b, advice == ib.AdvicePrefetchWrite)
		default:
			return false
		}
	}
}
