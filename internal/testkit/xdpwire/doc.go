// SPDX-License-Identifier: BSD-2-Clause

// Package xdpwire runs the tests of a transport once more with the frames of interfaces (AF_XDP)
// instead of sockets. Where VERBENA_TEST_XDP=1 is in the environment, Main runs the test binary
// again in a network namespace with a wire. Nodes are at either end of the wire in turns:
//
//	node 1, 3, …  10.9.0.x ─ xa ═══ xb ─ 10.9.128.x  node 2, 4, …
//
// Both ends are in one namespace, whose tables lead from one address to the other by the loopback
// interface: Place.LookUp has nodes send by the wire. Nodes of one end reach each other by sockets.
package xdpwire
