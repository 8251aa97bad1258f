// SPDX-License-Identifier: BSD-2-Clause

//go:build linux

package udp

import (
	"encoding/binary"
	"net/netip"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"verbena/internal/sys/fdtrack"
)

// rxControlWords bounds the control messages of one datagram, in 8-byte words:
// TOS, segment size and destination, each with its header.
const rxControlWords = 16

// rxHeaders are the message headers of recvmmsg, linked to an RxBatch's memory
// once.
type rxHeaders struct {
	hdr   [RxMessages]unix.Mmsghdr
	iov   [RxMessages]unix.Iovec
	name  [RxMessages]unix.RawSockaddrInet6 // large enough for either family
	ctl   [RxMessages][rxControlWords]uint64
	dirty int // headers the kernel has written since they were reset
}

func (h *rxHeaders) init(b *RxBatch) {
	for i := range h.hdr {
		buf := b.buffer(i)
		h.iov[i].Base = &buf[0]
		h.iov[i].SetLen(len(buf))
		m := &h.hdr[i].Hdr
		m.Iov = &h.iov[i]
		m.SetIovlen(1)
		m.Name = (*byte)(unsafe.Pointer(&h.name[i]))
		m.Control = (*byte)(unsafe.Pointer(&h.ctl[i][0]))
	}
	h.dirty = RxMessages
	h.reset()
}

func (h *rxHeaders) reset() {
	for i := range h.hdr[:h.dirty] {
		m := &h.hdr[i].Hdr
		m.Namelen = uint32(unsafe.Sizeof(h.name[0]))
		m.SetControllen(int(unsafe.Sizeof(h.ctl[0])))
		m.Flags = 0
	}
	h.dirty = 0
}

func (r *raw) readBatch(b *RxBatch) (int, error) { return r.readWith(b, b.want, 0) }

// readWith reads up to want messages with flags of recvmsg(2).
func (r *raw) readWith(b *RxBatch, want, flags int) (int, error) {
	if fdtrack.Lost() {
		return 0, os.NewSyscallError("recvmmsg", unix.EBADF)
	}
	h := &b.os
	h.reset()
	var n int
	var errno syscall.Errno
	for range maxRetriesEINTR {
		n, errno = h.receive(r.desc, want, flags)
		if errno != unix.EINTR {
			break
		}
	}
	switch errno {
	case 0:
	case unix.EAGAIN, unix.EINTR:
		return 0, nil
	case unix.ECONNREFUSED, unix.EHOSTUNREACH, unix.ENETUNREACH, unix.EMSGSIZE:
		r.count.unreachable.Add(1) // a pending ICMP error: not about this socket's state
		r.erred.Store(true)
		return 0, nil
	default:
		return 0, os.NewSyscallError("recvmmsg", errno)
	}
	h.dirty = n
	for i := range n {
		r.parse(b, i)
	}
	return n, nil
}

// receive makes one system call for up to want messages. One alone goes by
// recvmsg, which is a little shorter: a polling thread waits for it.
// Raw: the call does not block, so the scheduler need not know of it.
func (h *rxHeaders) receive(fd, want, flags int) (int, syscall.Errno) {
	flags |= unix.MSG_DONTWAIT
	if want == 1 {
		r1, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(fd),
			uintptr(unsafe.Pointer(&h.hdr[0].Hdr)), uintptr(flags))
		h.hdr[0].Len = uint32(r1)
		return 1, errno
	}
	r1, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(fd),
		uintptr(unsafe.Pointer(&h.hdr)), uintptr(want), uintptr(flags), 0, 0)
	return int(r1), errno
}

// parse makes message i from the headers that the kernel filled.
func (r *raw) parse(b *RxBatch, i int) {
	h, m := &b.os, &b.msgs[i]
	hdr := &h.hdr[i]
	size := min(int(hdr.Len), rxBufferBytes)
	m.Data = b.buf[i*rxBufferBytes : i*rxBufferBytes+size : (i+1)*rxBufferBytes]
	m.SegmentSize, m.TOS, m.Dst = size, 0, r.local.Addr()
	if hdr.Hdr.Flags&unix.MSG_TRUNC != 0 {
		r.count.trunc.Add(1)
	}
	name := &h.name[i]
	port := binary.BigEndian.Uint16((*[2]byte)(unsafe.Pointer(&name.Port))[:])
	if r.v6 {
		m.Src = netip.AddrPortFrom(netip.AddrFrom16(name.Addr), port)
	} else {
		from := (*unix.RawSockaddrInet4)(unsafe.Pointer(name))
		m.Src = netip.AddrPortFrom(netip.AddrFrom4(from.Addr), port)
	}
	parseControl(m, (*[rxControlWords * 8]byte)(unsafe.Pointer(&h.ctl[i]))[:hdr.Hdr.Controllen])
}

// parseControl walks the control messages of one datagram.
func parseControl(m *Message, ctl []byte) {
	const head = unix.SizeofCmsghdr
	for len(ctl) >= head {
		c := (*unix.Cmsghdr)(unsafe.Pointer(&ctl[0]))
		end := int(c.Len)
		if end < head || end > len(ctl) {
			return
		}
		val := ctl[head:end]
		switch {
		case c.Level == unix.IPPROTO_UDP && c.Type == unix.UDP_GRO && len(val) >= 2:
			// An int, written as u16 by some kernels: its low half either way.
			if seg := int(nativeInt(val)); seg > 0 {
				m.SegmentSize = min(seg, len(m.Data))
			}
		case c.Level == unix.IPPROTO_IP && c.Type == unix.IP_TOS && len(val) >= 1:
			m.TOS = val[0]
		case c.Level == unix.IPPROTO_IPV6 && c.Type == unix.IPV6_TCLASS && len(val) >= 4:
			m.TOS = uint8(nativeInt(val))
		case c.Level == unix.IPPROTO_IP && c.Type == unix.IP_PKTINFO &&
			len(val) >= unix.SizeofInet4Pktinfo:
			m.Dst = netip.AddrFrom4((*unix.Inet4Pktinfo)(unsafe.Pointer(&val[0])).Addr)
		case c.Level == unix.IPPROTO_IPV6 && c.Type == unix.IPV6_PKTINFO &&
			len(val) >= unix.SizeofInet6Pktinfo:
			m.Dst = netip.AddrFrom16((*unix.Inet6Pktinfo)(unsafe.Pointer(&val[0])).Addr)
		}
		next := unix.CmsgSpace(end - head)
		if next > len(ctl) {
			return
		}
		ctl = ctl[next:]
	}
}

// nativeInt reads an int or u16 control value in the machine's byte order.
func nativeInt(val []byte) uint32 {
	if len(val) >= 4 {
		return binary.NativeEndian.Uint32(val)
	}
	return uint32(binary.NativeEndian.Uint16(val))
}

// kernelDrops asks the kernel how many datagrams found no room in the socket.
func (r *raw) kernelDrops() uint64 {
	var mem [9]uint32 // SK_MEMINFO_VARS
	size := uint32(unsafe.Sizeof(mem))
	_, _, errno := unix.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(r.desc), unix.SOL_SOCKET,
		unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&mem)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return 0
	}
	return uint64(mem[8]) // SK_MEMINFO_DROPS
}
