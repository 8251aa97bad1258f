// SPDX-License-Identifier: BSD-2-Clause

// Package xdp has the kernel give the UDP datagrams of an interface to AF_XDP sockets (package
// xsk). It assembles a program and attaches it to the interface. A datagram goes to the socket of
// the slot in its destination number, or of its port, on the queue that it came by:
//
//	frame ─ for the interface's MAC ─┬─ UDP to the port ─ for an address of Add ─ a slot of Give ─► socket
//	                                 ├─ UDP to an address and port of AddPort ─ a slot of Give ───► socket
//	                                 └─ all else, fragments, IP options, VLAN tags: to the kernel
//
// A tag that the driver has taken out of the frame counts, where the driver tells.
//
// Only the process that keeps the port imports this package. It needs CAP_BPF and CAP_NET_ADMIN.
package xdp
