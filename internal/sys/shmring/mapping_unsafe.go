// SPDX-License-Identifier: BSD-2-Clause

//go:build linux

package shmring

import (
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Addresses that a Board has shown are never given back to the system, as a C program may look
// there still. They are used again: in between there is memory that reads as zero.
var spare struct {
	mu     sync.Mutex
	ranges map[int][]unsafe.Pointer // guarded by mu: by length
}

// newMapping maps a file, or with -1 zeroed memory.
func newMapping(fd, length int) ([]byte, error) {
	flags := unix.MAP_SHARED
	if fd < 0 {
		flags = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
	}
	spare.mu.Lock()
	defer spare.mu.Unlock()
	var at unsafe.Pointer
	have := spare.ranges[length]
	if n := len(have); n > 0 {
		at, flags = have[n-1], flags|unix.MAP_FIXED
	}
	p, err := unix.MmapPtr(fd, 0, at, uintptr(length), unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	if at != nil {
		spare.ranges[length] = have[:len(have)-1]
	}
	return unsafe.Slice((*byte)(p), length), nil
}

// endMapping replaces the memory by zeroes, in one step for a thread that reads it or arms its
// ring. Where the system has no room for that the memory stays as it is.
func endMapping(b []byte) {
	spare.mu.Lock()
	defer spare.mu.Unlock()
	p := unsafe.Pointer(unsafe.SliceData(b))
	_, _ = unix.MmapPtr(-1, 0, p, uintptr(len(b)), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE|unix.MAP_FIXED)
	if spare.ranges == nil {
		spare.ranges = map[int][]unsafe.Pointer{}
	}
	spare.ranges[len(b)] = append(spare.ranges[len(b)], p)
}

// NewBoard returns a board, nil if the system has no memory for it. End ends it.
func NewBoard() *Board {
	b, err := newMapping(-1, int(unsafe.Sizeof(boardMemory{})))
	if err != nil {
		return nil
	}
	m := (*boardMemory)(unsafe.Pointer(unsafe.SliceData(b)))
	m.mask = dataBytes - 1
	return &Board{shared: m}
}

// End takes the board down. A thread that still looks at it sees nothing.
func (b *Board) End() {
	if b == nil {
		return
	}
	m := b.shared
	b.shared = &boardMemory{}
	endMapping(unsafe.Slice((*byte)(unsafe.Pointer(m)), unsafe.Sizeof(*m)))
}
