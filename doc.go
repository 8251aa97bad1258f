// SPDX-License-Identifier: BSD-2-Clause

// Package verbena holds no code. It says what the project is, and its tests hold the rules that
// the whole tree obeys.
//
// Verbena is RDMA verbs in user space, in Go. Each network interface has a device for each of
// these transports:
//
//	RoCEv2   over UDP, compatible with RoCE hardware and Linux's rdma_rxe
//	iWARP    over TCP, compatible with Linux's siw
//	TRP      iWARP over UDP, compatible with urdma
//
// Devices of kind NTB join two nodes by memory that both reach: shared memory, a PCI device, or
// TCP. No device needs RDMA hardware or a kernel module, and an ordinary user may use it.
//
//	verbena/verbs      devices, memory, completion queues, queue pairs
//	verbena/rdmacm     the connection manager: connections by IP address and port
//	verbena/ib         the numbers and attribute records that both take and return
//	cmd/verbena        the command
//	examples/…         programs to copy from
//	internal/…         the layers below; ARCHITECTURE.md walks through them
//
// The rules are unit tests of this package: which package may import which (layers_test.go),
// what protocol machines must not use, and how source files and documents must look.
package verbena
