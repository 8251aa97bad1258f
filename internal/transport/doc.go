// SPDX-License-Identifier: BSD-2-Clause

// Package transport is the table of transports: it names the package that carries the queue pairs
// of each kind of device. Each transport is a package of its own below this one, which plugs into
// package engine and knows no other. Only roce knows one: its packets go by shm within a host.
//
//	kind    package  framing                                      read by
//	roce    roce     bursts of UDP datagrams, found by QPN        roce.Port, and shm.In within a host
//	iwarp   iwarp    FPDUs in a TCP stream, a socket a queue pair one epoll set
//	trp     trp      bursts of UDP datagrams, a socket a pair     one epoll set
//	ntb     ntb      writes into the windows of peers             ntb.Device
//
// Package raw carries the raw packet queue pairs of RoCEv2's devices.
//
// A new transport is a package here with an engine.Driver, a row in drivers, and a kind in
// package device. The toy of toy_test.go is one.
package transport
