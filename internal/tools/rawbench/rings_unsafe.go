// SPDX-License-Identifier: BSD-2-Clause

//go:build linux

package rawbench

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ringEntries is the length of each ring. Half as many frames are for receiving, half for sending,
// so that no ring is ever full.
const (
	ringEntries = 1024
	frameBytes  = 4096
	umemFrames  = 2 * ringEntries
)

// ring is an AF_XDP ring of entries of type T: a descriptor, or a frame's address.
type ring[T any] struct {
	producer, consumer *uint32
	entries            unsafe.Pointer
	at                 uint32 // the side's own index
}

func (r *ring[T]) entry(i uint32) *T {
	var t T
	return (*T)(unsafe.Add(r.entries, uintptr(i%ringEntries)*unsafe.Sizeof(t)))
}

// put adds an entry that publish shows.
func (r *ring[T]) put(v T) { *r.entry(r.at) = v; r.at++ }

// publish shows the entries to the kernel.
func (r *ring[T]) publish() { atomic.StoreUint32(r.producer, r.at) }

// waiting returns the number of entries to take.
func (r *ring[T]) waiting() int { return int(atomic.LoadUint32(r.producer) - r.at) }

// take returns the next entry. release gives the place back.
func (r *ring[T]) take() T  { v := *r.entry(r.at); r.at++; return v }
func (r *ring[T]) release() { atomic.StoreUint32(r.consumer, r.at) }

func mapRing[T any](fd, option int, at int64,
	offset func(*unix.XDPMmapOffsets) unix.XDPRingOffset) (r ring[T], err error) {
	if err := unix.SetsockoptInt(fd, unix.SOL_XDP, option, ringEntries); err != nil {
		return r, os.NewSyscallError("setsockopt of a ring", err)
	}
	var o unix.XDPMmapOffsets
	size := uint32(unsafe.Sizeof(o))
	if _, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_XDP,
		unix.XDP_MMAP_OFFSETS, uintptr(unsafe.Pointer(&o)), uintptr(unsafe.Pointer(&size)),
		0); errno != 0 {
		return r, os.NewSyscallError("getsockopt XDP_MMAP_OFFSETS", errno)
	}
	off := offset(&o)
	var t T
	b, err := unix.Mmap(fd, at, int(off.Desc)+ringEntries*int(unsafe.Sizeof(t)),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return r, os.NewSyscallError("mmap of a ring", err)
	}
	r.producer = (*uint32)(unsafe.Pointer(&b[off.Producer]))
	r.consumer = (*uint32)(unsafe.Pointer(&b[off.Consumer]))
	r.entries = unsafe.Pointer(&b[off.Desc])
	return r, nil
}

// xdpSocket is one AF_XDP socket with frames of its own.
type xdpSocket struct {
	fd             int
	frames         []byte
	rx, tx         ring[unix.XDPDesc]
	fill, complete ring[uint64]
	free           []uint64 // frames to send
}

// openXDP opens the socket of queue 0 of an interface. The process's end closes it.
func openXDP(index int) (*xdpSocket, error) {
	s := &xdpSocket{}
	if err := s.open(index); err != nil {
		return nil, fmt.Errorf("rawbench: %w", err)
	}
	return s, nil
}

func (s *xdpSocket) open(index int) (err error) {
	if s.fd, err = unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
		return os.NewSyscallError("socket AF_XDP", err)
	}
	if s.frames, err = unix.Mmap(-1, 0, umemFrames*frameBytes, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE); err != nil {
		return os.NewSyscallError("mmap", err)
	}
	reg := unix.XDPUmemReg{Addr: uint64(uintptr(unsafe.Pointer(&s.frames[0]))),
		Len: uint64(len(s.frames)), Size: frameBytes}
	if _, _, errno := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(s.fd), unix.SOL_XDP,
		unix.XDP_UMEM_REG, uintptr(unsafe.Pointer(&reg)), unsafe.Sizeof(reg), 0); errno != 0 {
		return os.NewSyscallError("setsockopt XDP_UMEM_REG", errno)
	}
	if s.fill, err = mapRing[uint64](s.fd, unix.XDP_UMEM_FILL_RING, unix.XDP_UMEM_PGOFF_FILL_RING,
		func(o *unix.XDPMmapOffsets) unix.XDPRingOffset { return o.Fr }); err != nil {
		return err
	}
	if s.complete, err = mapRing[uint64](s.fd, unix.XDP_UMEM_COMPLETION_RING,
		unix.XDP_UMEM_PGOFF_COMPLETION_RING,
		func(o *unix.XDPMmapOffsets) unix.XDPRingOffset { return o.Cr }); err != nil {
		return err
	}
	if s.rx, err = mapRing[unix.XDPDesc](s.fd, unix.XDP_RX_RING, unix.XDP_PGOFF_RX_RING,
		func(o *unix.XDPMmapOffsets) unix.XDPRingOffset { return o.Rx }); err != nil {
		return err
	}
	if s.tx, err = mapRing[unix.XDPDesc](s.fd, unix.XDP_TX_RING, unix.XDP_PGOFF_TX_RING,
		func(o *unix.XDPMmapOffsets) unix.XDPRingOffset { return o.Tx }); err != nil {
		return err
	}
	for i := range uint64(ringEntries) {
		s.fill.put(i * frameBytes)
		s.free = append(s.free, (ringEntries+i)*frameBytes)
	}
	s.fill.publish()
	return os.NewSyscallError("bind AF_XDP", unix.Bind(s.fd, &unix.SockaddrXDP{
		Flags: unix.XDP_USE_NEED_WAKEUP | unix.XDP_USE_SG, Ifindex: uint32(index)}))
}

// kick has the kernel send the entries of tx.
func (s *xdpSocket) kick() error {
	s.tx.publish()
	for atomic.LoadUint32(s.tx.consumer) != s.tx.at {
		_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(s.fd), 0, 0, unix.MSG_DONTWAIT,
			0, 0)
		if errno != 0 && errno != unix.EAGAIN && errno != unix.EBUSY && errno != unix.ENOBUFS {
			return os.NewSyscallError("sendto AF_XDP", errno)
		}
	}
	return nil
}
