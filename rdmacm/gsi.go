// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"net/netip"

	"verbena/internal/roce"
	transportroce "verbena/internal/transport/roce"
)

// gsi is the general services interface. It sends and receives MADs, and agrees with the processes
// that share an address. In production it is the engine; tests have one in memory.
//
// Its calls may wait for another process, so none is made with manager.mu held.
type gsi interface {
	// Listen makes MADs to a local address arrive.
	Listen(addr netip.Addr) error
	// OnMAD sets the function that takes them; it must not block.
	OnMAD(f func(m *roce.Meta, mad []byte))
	// OnLoss sets a function that is called when MADs may have been lost; it must not block.
	OnLoss(f func())
	// SendMAD sends a MAD; EAGAIN if there is no room for it now.
	SendMAD(src, dst netip.Addr, mad []byte) error
	// ListenService directs requests for a service id that come to a scope to this process;
	// EADDRINUSE if another has a scope that overlaps.
	ListenService(id uint64, scope netip.Addr) error
	UnlistenService(id uint64, scope netip.Addr)
	// Settle acknowledges at once all messages that the application has polled: it turns to
	// connections, and its peer may be waiting before it listens.
	Settle()
	// SetWill leaves a MAD to be sent if this process dies before ClearWill.
	SetWill(id uint64, src, dst netip.Addr, mad []byte) error
	ClearWill(id uint64)
	// Slot is the top ten bits of this process's communication ids.
	Slot() int
}

// madSource is a gsi whose MADs the manager's threads may read by themselves. Transport has the
// methods.
type madSource interface {
	WatchMADs(epoll int) error
	UnwatchMADs(epoll int)
	ReadMADs() (more bool)
}

var _ madSource = (*transportroce.Transport)(nil)

var _ gsi = (*transportroce.Transport)(nil)
