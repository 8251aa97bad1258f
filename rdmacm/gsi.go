// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"net/netip"

	"verbena/internal/engine"
	"verbena/internal/roce"
)

// gsi is the general services interface: how MADs leave and reach this process,
// and what processes that share an address agree on. In production it is the
// engine; tests have one in memory.
//
// Its calls may wait for another process, so none is made with manager.mu held.
type gsi interface {
	// Listen makes MADs to a local address arrive.
	Listen(addr netip.Addr) error
	// OnMAD sets who takes them; it must not block.
	OnMAD(f func(m *roce.Meta, mad []byte))
	// OnLoss sets who is told that MADs may have been lost; it must not block.
	OnLoss(f func())
	SendMAD(src, dst netip.Addr, mad []byte) error
	// ListenService makes requests for a service id that come to a scope come to
	// this process; EADDRINUSE if another has a scope that overlaps.
	ListenService(id uint64, scope netip.Addr) error
	UnlistenService(id uint64, scope netip.Addr)
	// Settle acknowledges at once whatever the application was told of: it turns
	// to connections, and its peer may be waiting before it listens.
	Settle()
	// SetWill leaves a MAD to be sent if this process dies before ClearWill.
	SetWill(id uint64, src, dst netip.Addr, mad []byte) error
	ClearWill(id uint64)
	// Slot is the top six bits of this process's communication ids.
	Slot() int
}

var _ gsi = (*engine.Engine)(nil)
