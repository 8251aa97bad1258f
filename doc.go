// SPDX-License-Identifier: BSD-2-Clause

// Package verbena holds no code: it says what the project is, and its tests
// hold the rules that the whole tree obeys.
//
// Verbena is RDMA verbs in user space, in Go: devices on ordinary network
// interfaces that speak RoCEv2 over UDP sockets, wire-compatible with the Linux
// kernel's rdma_rxe, with no RDMA hardware, no kernel module and no privilege.
//
//	verbena/verbs      devices, memory, completion queues, queue pairs
//	verbena/rdmacm     the connection manager: who to talk to, by IP address and port
//	verbena/ib         the numbers and attribute records they take and return
//	cmd/verbena        the command
//	internal/…         the layers below; ARCHITECTURE.md walks through them
//
// The rules are unit tests of this package: which package may import which
// (layers_test.go says which layer each is in), what protocol machines must
// not touch, and how source files must look.
package verbena
