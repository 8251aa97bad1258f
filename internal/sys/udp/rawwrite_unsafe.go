// SPDX-License-Identifier: BSD-2-Clause

//go:build linux

package udp

import (
	"encoding/binary"
	"net/netip"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// txControlWords bounds the control messages of one item, in 8-byte words:
// segment size, TOS and TTL, each a header of two words and a value of one.
const txControlWords = 9

// txScratch holds the headers of one sendmmsg.
type txScratch struct {
	hdr  [txMessages]unix.Mmsghdr
	iov  [maxIovecs]unix.Iovec
	name [txMessages]unix.RawSockaddrInet6
	ctl  [txMessages][txControlWords]uint64
	n    int // messages filled
	vecs int // vectors filled
}

// txFree keeps scratches for reuse: as many as goroutines write at once on a
// large machine. One more than that costs an allocation, nothing else.
var txFree [8]atomic.Pointer[txScratch]

func takeScratch() *txScratch {
	for i := range txFree {
		if t := txFree[i].Swap(nil); t != nil {
			return t
		}
	}
	t := &txScratch{}
	for i := range t.hdr {
		t.hdr[i].Hdr.Name = (*byte)(unsafe.Pointer(&t.name[i]))
		t.hdr[i].Hdr.Control = (*byte)(unsafe.Pointer(&t.ctl[i][0]))
	}
	return t
}

func (t *txScratch) give() {
	t.clear()
	for i := range txFree {
		if txFree[i].CompareAndSwap(nil, t) {
			return
		}
	}
}

// clear forgets the application's memory: a stale pointer to C memory that was
// unmapped is fatal to the garbage collector when it reuses the addresses.
func (t *txScratch) clear() {
	clear(t.iov[:t.vecs])
	t.n, t.vecs = 0, 0
}

// room reports whether an item of so many vectors still fits.
func (t *txScratch) room(vecs int) bool { return t.n < txMessages && t.vecs+vecs <= maxIovecs }

// push adds a vector of the message being built.
func (t *txScratch) push(p []byte) {
	if len(p) == 0 {
		return
	}
	v := &t.iov[t.vecs]
	v.Base = unsafe.SliceData(p)
	v.SetLen(len(p))
	t.vecs++
}

// finish completes a message whose vectors start at from.
func (t *txScratch) finish(r *raw, d *Datagrams, from, segment int) {
	m := &t.hdr[t.n].Hdr
	m.Iov = nil
	if t.vecs > from {
		m.Iov = &t.iov[from]
	}
	m.SetIovlen(t.vecs - from)
	m.Namelen = r.putName(&t.name[t.n], d.Dst)
	m.SetControllen(r.putControl(&t.ctl[t.n], d, segment))
	m.Flags = 0
	t.n++
}

func (r *raw) putName(name *unix.RawSockaddrInet6, dst netip.AddrPort) uint32 {
	if !r.v6 {
		n4 := (*unix.RawSockaddrInet4)(unsafe.Pointer(name))
		n4.Family = unix.AF_INET
		n4.Addr = dst.Addr().Unmap().As4()
		binary.BigEndian.PutUint16((*[2]byte)(unsafe.Pointer(&n4.Port))[:], dst.Port())
		return unix.SizeofSockaddrInet4
	}
	name.Family = unix.AF_INET6
	name.Addr = dst.Addr().As16()
	name.Flowinfo, name.Scope_id = 0, 0
	if a := dst.Addr(); a.IsLinkLocalUnicast() || a.IsLinkLocalMulticast() {
		name.Scope_id = r.scope
	}
	binary.BigEndian.PutUint16((*[2]byte)(unsafe.Pointer(&name.Port))[:], dst.Port())
	return unix.SizeofSockaddrInet6
}

// putControl writes the control messages an item needs and returns their size.
func (r *raw) putControl(ctl *[txControlWords]uint64, d *Datagrams, segment int) int {
	b := (*[txControlWords * 8]byte)(unsafe.Pointer(ctl))[:]
	at := 0
	put := func(level, typ int32, size int) []byte {
		c := (*unix.Cmsghdr)(unsafe.Pointer(&b[at]))
		c.Level, c.Type = level, typ
		c.SetLen(unix.CmsgLen(size))
		val := b[at+unix.CmsgLen(0):][:size]
		at += unix.CmsgSpace(size)
		return val
	}
	if segment > 0 {
		binary.NativeEndian.PutUint16(put(unix.IPPROTO_UDP, unix.UDP_SEGMENT, 2), uint16(segment))
	}
	level, tos, ttl := int32(unix.IPPROTO_IP), int32(unix.IP_TOS), int32(unix.IP_TTL)
	if r.v6 {
		level, tos, ttl = unix.IPPROTO_IPV6, unix.IPV6_TCLASS, unix.IPV6_HOPLIMIT
	}
	if d.TOS != r.tos {
		binary.NativeEndian.PutUint32(put(level, tos, 4), uint32(d.TOS))
	}
	// The socket's own hop limit is for unicast: multicast has another, of 1.
	if d.TTL != 0 && (d.TTL != defaultTTL || d.Dst.Addr().IsMulticast()) {
		binary.NativeEndian.PutUint32(put(level, ttl, 4), uint32(d.TTL))
	}
	return at
}

// send hands the messages filled to the kernel and returns how many it took. If fewer than all,
// errno is the error of the first of the others.
func (t *txScratch) send(fd int) (sent int, errno syscall.Errno) {
	for tries := 0; sent < t.n; {
		r1, e := t.sendFrom(fd, sent)
		if e == unix.EINTR && tries < maxRetriesEINTR {
			tries++
			continue
		}
		if e != 0 {
			return sent, e
		}
		sent += int(r1) // short: the next round brings the reason
	}
	return sent, 0
}

// sendFrom makes one system call with the messages from the given one on. A plain datagram goes by
// sendto, which copies no headers into the kernel: a short answer is one, and its receiver waits.
func (t *txScratch) sendFrom(fd, from int) (sent uintptr, errno syscall.Errno) {
	m := &t.hdr[from].Hdr
	if t.n-from == 1 && m.Iovlen == 1 && m.Controllen == 0 {
		sent, _, errno = unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd),
			uintptr(unsafe.Pointer(m.Iov.Base)), uintptr(m.Iov.Len), unix.MSG_DONTWAIT,
			uintptr(unsafe.Pointer(m.Name)), uintptr(m.Namelen))
		t.hdr[from].Len = uint32(sent) // as sendmmsg does
		return 1, errno
	}
	sent, _, errno = unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(m)),
		uintptr(t.n-from), unix.MSG_DONTWAIT, 0, 0)
	return sent, errno
}
