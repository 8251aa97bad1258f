// SPDX-License-Identifier: BSD-2-Clause

package xsk

import "net/netip"

// Way leads frames from an interface to a destination.
type Way struct {
	Neighbour, Own [6]byte // Ethernet addresses
	MTU            int     // of the path
}

// LookUp tells the way from src to dst. ok is false where it leads by no known neighbour, or by
// another interface.
type LookUp func(iface int, src, dst netip.Addr) (w Way, ok bool)
