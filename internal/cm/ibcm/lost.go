// SPDX-License-Identifier: BSD-2-Clause

package ibcm

import (
	"verbena/internal/monotime"
	"verbena/internal/wire/cm"
)

// Lost is a connection, or a request under way, whose path may be lost.
type Lost struct {
	Path      Path
	Known     bool // the peer has said its communication id:
	Slot      uint16
	ServiceID cm.ServiceID // otherwise: the service that we ask for
}

// Lose ends the connections and requests whose path is lost, as lost reports: the peer has died, or
// has forgotten them. Nothing is sent; the application is notified at once. Those that only wait
// for their time to be over stay.
//
// Beyond the specification: over InfiniBand nobody learns of such a loss but by
// time-outs.
func (a *Agent) Lose(now monotime.Time, lost func(*Lost) bool) {
	for _, c := range a.inOrder() {
		if onlyWaiting.Has(c.state) {
			continue
		}
		x := Lost{Path: c.path, Known: c.remoteID != 0, Slot: uint16(c.remoteID >> slotShift)}
		if !x.Known {
			x.ServiceID = RouteOf(c.last[:]).ServiceID
		}
		if !lost(&x) {
			continue
		}
		a.count[PathLost]++
		a.timers.remove(c)
		switch {
		case (awaitingReply | halfOpenStates).Has(c.state), c.state == SIDRReqSent:
			a.raise(c, Event{Kind: EventUnreachable})
			a.close(c)
		case c.state == SIDRReqRcvd:
			a.close(c)
		case replied.Has(c.state):
			a.raise(c, Event{Kind: EventUnreachable})
			a.enterTimewait(now, c)
		case c.state == DreqRcvd: // EventDisconnected was raised already
			a.enterTimewait(now, c)
		default: // Established, DreqSent
			a.raise(c, Event{Kind: EventDisconnected})
			a.enterTimewait(now, c)
		}
	}
}
