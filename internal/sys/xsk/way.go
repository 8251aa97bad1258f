// SPDX-License-Identifier: BSD-2-Clause

package xsk

import "net/netip"

// Way leads frames from an interface to a destination.
type Way struct {
	Neighbour, Own [6]byte // Ethernet addresses
	MTU            int     // of the path
	// Old has one datagram go by the kernel's socket: the kernel has not checked the neighbour for
	// long, and checks only those that it sends to itself.
	Old bool
	// JoinsBursts has bursts go by the kernel's socket, as one packet: the kernel hands the frames
	// of an interface on one by one, in the order of both.
	JoinsBursts bool
}

// LookUp tells the way from src to dst. ok is false where it leads by no known neighbour, or by
// another interface.
type LookUp func(iface int, src, dst netip.Addr) (w Way, ok bool)
