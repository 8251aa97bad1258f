// SPDX-License-Identifier: BSD-2-Clause

//go:build linux

package rawbench

import (
	"net/netip"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"verbena/internal/sys/udp"
)

// plain is a socket with one sendto and one recvfrom per datagram, without package udp: the
// baseline must not contain the code under comparison.
type plain struct {
	s    *udp.Socket // opened and closed by it, no more
	fd   uintptr
	from dest // of the last datagram received
}

// dest is a socket address as the kernel reads and writes it.
type dest struct {
	raw  unix.RawSockaddrInet6 // large enough for either family
	size uint32
}

func openPlain(addr netip.Addr) (*plain, error) {
	s, err := udp.Listen(addr, 0, udp.Options{NoJoin: true})
	if err != nil {
		return nil, err
	}
	return &plain{s: s, fd: uintptr(s.FD())}, nil
}

func (p *plain) local() netip.AddrPort { return p.s.LocalAddr() }
func (p *plain) close() error          { return p.s.Close() }

// dest converts an address once, before the clock runs.
func (p *plain) dest(to netip.AddrPort) *dest {
	port := [2]byte{byte(to.Port() >> 8), byte(to.Port())}
	if to.Addr().Is4() {
		d := &dest{size: unix.SizeofSockaddrInet4}
		r := (*unix.RawSockaddrInet4)(unsafe.Pointer(&d.raw))
		r.Family, r.Addr = unix.AF_INET, to.Addr().As4()
		*(*[2]byte)(unsafe.Pointer(&r.Port)) = port
		return d
	}
	d := &dest{size: unix.SizeofSockaddrInet6}
	d.raw.Family, d.raw.Addr = unix.AF_INET6, to.Addr().As16()
	*(*[2]byte)(unsafe.Pointer(&d.raw.Port)) = port
	return d
}

func (p *plain) send(b []byte, to *dest) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, p.fd,
		uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), 0,
		uintptr(unsafe.Pointer(&to.raw)), uintptr(to.size))
	if errno != 0 {
		return os.NewSyscallError("sendto", errno)
	}
	return nil
}

// receive returns the size of the datagram that was there, -1 if none was.
func (p *plain) receive(b []byte) (int, *dest, error) {
	p.from.size = unix.SizeofSockaddrInet6
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, p.fd, uintptr(unsafe.Pointer(&b[0])),
		uintptr(len(b)), unix.MSG_DONTWAIT, uintptr(unsafe.Pointer(&p.from.raw)),
		uintptr(unsafe.Pointer(&p.from.size)))
	switch errno {
	case 0:
		return int(n), &p.from, nil
	case unix.EAGAIN, unix.EINTR:
		return -1, nil, nil
	}
	return -1, nil, os.NewSyscallError("recvfrom", errno)
}
