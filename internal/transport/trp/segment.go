// SPDX-License-Identifier: BSD-2-Clause

package trp

import (
	"net"
	"net/netip"

	"verbena/internal/wire/iwarp"
	wire "verbena/internal/wire/trp"
)

// Segment sizes.
//
// Deviation: urdma sends 1,024 bytes of payload, or 8,192 where jumbo frames pass. It receives any
// payload that its frames hold, and we send that, up to 8,192.
const (
	jumboMTU     = 9000
	jumboPayload = 8192
	leastMTU     = 1280 // every link has it: RFC 8200, section 5
	udpBytes     = 8
)

// segmentBytes returns how long DDP segments from a local address may be, so that a datagram is one
// frame of its interface. Nothing announces narrower links behind it: TRP has no message for that.
func segmentBytes(a netip.Addr) int {
	mtu := leastMTU
	if list, err := net.Interfaces(); err == nil {
		for _, i := range list {
			if i.MTU > mtu && hasAddr(&i, a) {
				mtu = i.MTU
			}
		}
	}
	if mtu >= jumboMTU {
		return jumboPayload + iwarp.TaggedBytes
	}
	ip := 20
	if a.Is6() {
		ip = 40
	}
	return mtu - ip - udpBytes - wire.HeaderBytes
}

func hasAddr(i *net.Interface, a netip.Addr) bool {
	list, err := i.Addrs()
	if err != nil {
		return false
	}
	for _, x := range list {
		if n, ok := x.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok && ip.Unmap() == a.WithZone("") &&
				(a.Zone() == "" || a.Zone() == i.Name) {
				return true
			}
		}
	}
	return false
}
