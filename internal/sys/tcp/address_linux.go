// SPDX-License-Identifier: BSD-2-Clause

package tcp

import (
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"

	"verbena/internal/sys/sockaddr"
)

// address returns a socket address; an IPv4 one is of IPv4 also if it is mapped
// to IPv6, as no socket here is of both families.
func address(ap netip.AddrPort) unix.Sockaddr {
	_, sa := sockaddr.Of(netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port()))
	return sa
}

func addrPort(sa unix.Sockaddr) (netip.AddrPort, error) {
	ap, ok := sockaddr.AddrPort(sa)
	if !ok {
		return ap, errors.New("tcp: not an IP socket")
	}
	return ap, nil
}
