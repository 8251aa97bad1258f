// SPDX-License-Identifier: BSD-2-Clause

//go:build linux

package xsk

import (
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ring is one of the rings of an AF_XDP socket, mapped. One side writes entries and moves the
// producer, the other one reads them and moves the consumer. The kernel is one of the sides.
type ring struct {
	memory             []byte
	producer, consumer *uint32
	flags              *uint32
	entries            unsafe.Pointer
	mask               uint32
}

// descriptor is an entry of a receive or transmit ring: a piece of a packet.
type descriptor = unix.XDPDesc

// moreFollows marks all pieces of a packet but the last (XDP_PKT_CONTD).
const moreFollows = 1

// offsets asks where the parts of a socket's rings are.
func offsets(fd int) (o unix.XDPMmapOffsets, err error) {
	size := uint32(unsafe.Sizeof(o))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_XDP,
		unix.XDP_MMAP_OFFSETS, uintptr(unsafe.Pointer(&o)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return o, os.NewSyscallError("getsockopt XDP_MMAP_OFFSETS", errno)
	}
	return o, nil
}

// mapRing maps a ring of n entries.
func mapRing(fd int, at int64, o unix.XDPRingOffset, n int, entryBytes uintptr) (*ring, error) {
	b, err := unix.Mmap(fd, at, int(o.Desc)+n*int(entryBytes), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, os.NewSyscallError("mmap of a ring", err)
	}
	return &ring{
		memory:   b,
		producer: (*uint32)(unsafe.Pointer(&b[o.Producer])),
		consumer: (*uint32)(unsafe.Pointer(&b[o.Consumer])),
		flags:    (*uint32)(unsafe.Pointer(&b[o.Flags])),
		entries:  unsafe.Pointer(&b[o.Desc]),
		mask:     uint32(n - 1),
	}, nil
}

func (r *ring) close() {
	if r != nil {
		unix.Munmap(r.memory)
	}
}

// packet returns an entry of a receive or transmit ring.
func (r *ring) packet(i uint32) *descriptor {
	return (*descriptor)(unsafe.Add(r.entries, uintptr(i&r.mask)*unsafe.Sizeof(descriptor{})))
}

// address returns an entry of a fill or completion ring.
func (r *ring) address(i uint32) *uint64 {
	return (*uint64)(unsafe.Add(r.entries, uintptr(i&r.mask)*8))
}

// needsWakeup reports whether the kernel looks at the ring only when it is called.
func (r *ring) needsWakeup() bool {
	return atomic.LoadUint32(r.flags)&unix.XDP_RING_NEED_WAKEUP != 0
}

// wake has the kernel look at a fill ring, by a socket that receives from it.
func (r *ring) wake(fd int) {
	if r.needsWakeup() {
		unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
	}
}

// register makes memory the frames of a socket, and of those that share with it.
func register(fd int, memory []byte, frameBytes int) error {
	// The structure has grown since its first version; the kernel takes any of its lengths.
	reg := struct {
		addr, len        uint64
		chunk, headroom  uint32
		flags, txMetaLen uint32
	}{addr: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(memory)))), len: uint64(len(memory)),
		chunk: uint32(frameBytes)}
	_, _, errno := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_XDP, unix.XDP_UMEM_REG,
		uintptr(unsafe.Pointer(&reg)), unsafe.Sizeof(reg), 0)
	if errno != 0 {
		return os.NewSyscallError("setsockopt XDP_UMEM_REG", errno)
	}
	return nil
}

// dropped asks how many packets the kernel dropped because a socket had no room or no frame.
func dropped(fd int) uint64 {
	var s struct{ dropped, invalid, invalidTx, ringFull, fillEmpty, txEmpty uint64 }
	size := uint32(unsafe.Sizeof(s))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_XDP,
		unix.XDP_STATISTICS, uintptr(unsafe.Pointer(&s)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return 0
	}
	return s.dropped + s.ringFull
}

// descriptorBytes is the length of an entry of a receive or transmit ring.
const descriptorBytes = unsafe.Sizeof(descriptor{})
