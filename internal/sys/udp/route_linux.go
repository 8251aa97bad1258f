// SPDX-License-Identifier: BSD-2-Clause

package udp

import (
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"verbena/internal/sys/sockaddr"
)

// SourceFor asks the system's routes which address packets to dst leave from.
// Connecting a datagram socket sends nothing.
func SourceFor(dst netip.AddrPort) (netip.Addr, error) {
	family, sa := sockaddr.Of(dst)
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return netip.Addr{}, os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, sa); err != nil {
		return netip.Addr{}, os.NewSyscallError("connect", err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		return netip.Addr{}, os.NewSyscallError("getsockname", err)
	}
	src, _ := sockaddr.AddrPort(name) // the family is that of dst
	return src.Addr().Unmap(), nil
}
