// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"net/netip"

	"verbena/ib"
)

// Cause is the peer of a queue pair that has raised an event, and the reason of its failure.
type Cause struct {
	Peer    netip.AddrPort // invalid where packets do not go by IP, and of UD
	PeerQPN ib.QPN
	Reason  ib.VendorErr
}

// NoteCause keeps the Cause of an event for OnEvent. The caller has locked c.
func (c *Conn) NoteCause() {
	var a ib.QPAttr
	c.machine.Query(&a)
	c.cause.Store(&Cause{c.PeerLocked(), a.DestQPN, c.machine.Cause()})
}

// Cause returns the Cause of the last event, nil if there was none. It takes no lock.
func (c *Conn) Cause() *Cause { return c.cause.Load() }
