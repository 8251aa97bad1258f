// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"net/netip"

	"verbena/ib"
	"verbena/internal/qp"
)

// A Driver makes the queue pairs of a kind of device.
type Driver interface {
	// CounterNames returns the names of the counts of the queue pairs' machines.
	CounterNames() []string
	// NewConn makes a queue pair.
	//
	// Errors: no number is left.
	NewConn(e *Engine, q *QPSpec) (*Conn, error)
}

// QPSpec configures a queue pair.
type QPSpec struct {
	Type     ib.QPType
	Counters *DeviceCounters
	OnEvent  func(ib.EventType)         // called without locks, with each event
	Config   func(qpn ib.QPN) qp.Config // called with the number
	MTU      int                        // bytes, of the port
	// Source returns the address that a UD queue pair sends from, by GID index.
	Source    func(index uint8) netip.AddrPort
	Interface int // number of the device's network interface; 0 where it has none
	// Lane is that of the completion queues.
	Lane *Lane
	// Device is the transport's object for the device; nil where it has none.
	Device any
}
