package udp

import (
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// SourceFor asks the system's routes which address packets to dst leave from.
// Connecting a datagram socket sends nothing.
func SourceFor(dst netip.AddrPort) (netip.Addr, error) {
	family := unix.AF_INET6
	if dst.Addr().Is4() {
		family = unix.AF_INET
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return netip.Addr{}, os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, sockaddr(dst)); err != nil {
		return netip.Addr{}, os.NewSyscallError("connect", err)
	}
	name, err := unix.Getsockname(fd)
	switch a := name.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrFrom4(a.Addr), nil
	case *unix.SockaddrInet6:
		addr := netip.AddrFrom16(a.Addr).Unmap()
		if ifi, err := net.InterfaceByIndex(int(a.ZoneId)); a.ZoneId != 0 && err == nil {
			addr = addr.WithZone(ifi.Name)
		}
		return addr, nil
	}
	return netip.Addr{}, os.NewSyscallError("getsockname", err)
}
