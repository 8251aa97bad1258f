// SPDX-License-Identifier: BSD-2-Clause

//go:build linux

package packet

import (
	"encoding/binary"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"verbena/internal/sys/fdtrack"
)

const (
	vnetBytes    = 10 // struct virtio_net_hdr
	auxBytes     = 20 // struct tpacket_auxdata
	controlWords = 8  // of 8 bytes: tpacket_auxdata with its header

	needsSum = 1 // VIRTIO_NET_HDR_F_NEEDS_CSUM
)

// message is the memory of one frame that arrives.
type message struct {
	hdr  unix.Msghdr
	iov  [2]unix.Iovec
	vnet [vnetBytes]byte
	ctl  [controlWords]uint64
	buf  []byte
}

func (m *message) init() {
	m.buf = make([]byte, MaxBytes+tagBytes)
	m.iov[0].Base = &m.vnet[0]
	m.iov[0].SetLen(len(m.vnet))
	m.iov[1].Base = &m.buf[0]
	m.iov[1].SetLen(MaxBytes)
	m.hdr.Iov = &m.iov[0]
	m.hdr.SetIovlen(len(m.iov))
	m.hdr.Control = (*byte)(unsafe.Pointer(&m.ctl[0]))
}

// Read returns the next frame that has arrived, which is valid until the next call; none is a frame
// of no bytes. It does not block. A frame that is too long, or that does not fit the kernel's
// description of it, is an error.
func (r *Receiver) Read() (frame []byte, err error) {
	if fdtrack.Lost() {
		return nil, os.NewSyscallError("recvmsg", unix.EBADF)
	}
	m := &r.message
	m.hdr.Flags = 0
	m.hdr.SetControllen(int(unsafe.Sizeof(m.ctl)))
	var n int
	var errno syscall.Errno
	for range maxRetriesEINTR {
		// Raw: the call does not block, so the scheduler need not know of it.
		var r1 uintptr
		r1, _, errno = unix.RawSyscall(unix.SYS_RECVMSG, uintptr(r.fd),
			uintptr(unsafe.Pointer(&m.hdr)), unix.MSG_DONTWAIT)
		if n = int(r1); errno != unix.EINTR {
			break
		}
	}
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR || errno == unix.ENETDOWN:
		return nil, nil // ENETDOWN: the interface went down, and may come up again
	case errno != 0:
		return nil, os.NewSyscallError("recvmsg", errno)
	case n < vnetBytes || n-vnetBytes > MaxBytes || m.hdr.Flags&unix.MSG_TRUNC != 0:
		return nil, unix.EMSGSIZE
	}
	a := m.arrival()
	frame, ok := a.complete(m.buf, n-vnetBytes)
	if !ok {
		return nil, unix.EBADMSG
	}
	return frame, nil
}

// arrival returns the kernel's description of the frame that was read.
func (m *message) arrival() (a arrival) {
	ne := binary.NativeEndian
	a.unsummed = m.vnet[0]&needsSum != 0
	a.sumStart, a.sumOffset = int(ne.Uint16(m.vnet[6:])), int(ne.Uint16(m.vnet[8:]))
	control := unsafe.Slice((*byte)(unsafe.Pointer(&m.ctl[0])), unsafe.Sizeof(m.ctl))
	c := (*unix.Cmsghdr)(unsafe.Pointer(&m.ctl[0]))
	aux := control[unix.CmsgLen(0):]
	if uint64(m.hdr.Controllen) < uint64(unix.CmsgLen(auxBytes)) || c.Level != unix.SOL_PACKET ||
		c.Type != unix.PACKET_AUXDATA {
		return a
	}
	a.tagged = ne.Uint32(aux)&unix.TP_STATUS_VLAN_VALID != 0
	a.id, a.tpid = ne.Uint16(aux[16:]), unix.ETH_P_8021Q
	if ne.Uint32(aux)&unix.TP_STATUS_VLAN_TPID_VALID != 0 {
		a.tpid = ne.Uint16(aux[18:])
	}
	return a
}
