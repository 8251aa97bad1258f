// SPDX-License-Identifier: BSD-2-Clause

// Package packet has packet sockets (packet(7)): whole Ethernet frames that leave and arrive by a
// network interface. They are Linux's, and need CAP_NET_RAW.
//
//	Sender    frames leave, and the Receivers of the interface get them too, in all processes
//	Receiver  frames arrive, as they were on the wire
//
// A Receiver gets no other frames that leave the interface. It knows those of a Sender by their
// mark (SO_MARK). The kernel gets each frame that arrives as well.
package packet
