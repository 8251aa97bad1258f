// SPDX-License-Identifier: BSD-2-Clause

//go:build linux

package backend

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// part is memory that is to be mapped.
type part struct {
	f fd
	n uint64
}

// mapParts maps several, one behind the other, as memory that a child of a fork
// has no part in.
func mapParts(parts []part) ([]byte, error) {
	var all uintptr
	for _, x := range parts {
		all += uintptr(x.n)
	}
	room, err := unix.MmapPtr(-1, 0, nil, all, unix.PROT_NONE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	b := unsafe.Slice((*byte)(room), all)
	at := room
	for _, x := range parts {
		if _, err := unix.MmapPtr(int(x.f), 0, at, uintptr(x.n), unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_SHARED|unix.MAP_FIXED); err != nil {
			unmapParts(b)
			return nil, os.NewSyscallError("mmap", err)
		}
		at = unsafe.Add(at, x.n)
	}
	if err := unix.Madvise(b, unix.MADV_DONTFORK); err != nil {
		unmapParts(b)
		return nil, os.NewSyscallError("madvise", err)
	}
	return b, nil
}

func unmapParts(b []byte) {
	if b != nil {
		_ = unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b))) // it is mapped
	}
}
