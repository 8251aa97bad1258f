// SPDX-License-Identifier: BSD-2-Clause

// Package sim is "verbena sim": it plays flows of RDMA on a network that a small file describes, in
// virtual time, and prints tables and graphs. Package simnet is the network, package flows has the
// flows. parse.go has the file's statements.
//
// With --live the same network carries Ethernet frames between TAP interfaces. Its virtual time
// then follows the clock: wire_linux.go. live_linux.go has the namespaces.
package sim
