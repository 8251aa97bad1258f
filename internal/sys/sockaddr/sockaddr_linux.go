// SPDX-License-Identifier: BSD-2-Clause

package sockaddr

import (
	"net"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"
)

// Of returns the family of sockets for an address, and the address as they want
// it. IPv4 mapped to IPv6 stays IPv6.
func Of(ap netip.AddrPort) (family int, sa unix.Sockaddr) {
	a := ap.Addr()
	if a.Is4() {
		return unix.AF_INET, &unix.SockaddrInet4{Port: int(ap.Port()), Addr: a.As4()}
	}
	return unix.AF_INET6, &unix.SockaddrInet6{Port: int(ap.Port()), Addr: a.As16(),
		ZoneId: zoneIndex(a.Zone())}
}

// zoneIndex returns the interface that a zone names, 0 if none: the system then
// refuses a link-local address.
func zoneIndex(zone string) uint32 {
	if zone == "" {
		return 0
	}
	if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
		return uint32(n)
	}
	ifi, err := net.InterfaceByName(zone)
	if err != nil {
		return 0
	}
	return uint32(ifi.Index)
}

// AddrPort is Of's inverse, false for an address that is not IP. A zone is the interface's name, or
// its index if it has gone.
func AddrPort(sa unix.Sockaddr) (ap netip.AddrPort, ok bool) {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port)), true
	case *unix.SockaddrInet6:
		a := netip.AddrFrom16(sa.Addr)
		if sa.ZoneId != 0 {
			zone := strconv.FormatUint(uint64(sa.ZoneId), 10)
			if ifi, err := net.InterfaceByIndex(int(sa.ZoneId)); err == nil {
				zone = ifi.Name
			}
			a = a.WithZone(zone)
		}
		return netip.AddrPortFrom(a, uint16(sa.Port)), true
	}
	return netip.AddrPort{}, false
}
