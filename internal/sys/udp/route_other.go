// SPDX-License-Identifier: BSD-2-Clause

//go:build !linux

package udp

import (
	"net"
	"net/netip"
)

// SourceFor asks the system's routes which address packets to dst leave from.
// Connecting a datagram socket sends nothing.
func SourceFor(dst netip.AddrPort) (netip.Addr, error) {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(dst))
	if err != nil {
		return netip.Addr{}, err
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap(), nil
}
