// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"net/netip"

	"verbena/ib"
	"verbena/internal/monotime"
)

// server is the part of a connection manager's protocol that all identifiers share.
type server interface {
	connectorFor(id *ID) connector
	// has reports whether its devices have a port space, for a type of queue pairs or for any (0).
	has(ps PortSpace, t ib.QPType) bool
	// attach has requests reach the manager that come to a device's address.
	attach(at localAddr) error
	// serve does due work, on the manager's goroutine. It returns when it is to be called next, and
	// whether there was something to do.
	serve(now monotime.Time) (next monotime.Time, busy bool)
	// idleLocked reports whether nothing is under way any more. manager.mu is held.
	idleLocked() bool
}

// connector is an identifier's side of a connection manager's protocol. RoCE devices and NTB links
// have the InfiniBand specification's: ibConnector.
//
// The identifier checks its state before it calls, and holds its mu.
type connector interface {
	// bind takes a local port for an address, which may be a wildcard, and
	// returns it; port 0 stands for one that is free. The port is kept from other
	// processes at once if it is shared, else when it is listened to at the latest.
	bind(ip netip.Addr, port uint16, shared bool) (uint16, error)
	listen(backlog int) error
	connect(p *ConnParam) error
	// establish confirms to a peer that has accepted that the queue pair is ready.
	establish() error
	accept(p *ConnParam) error
	// reject refuses a request, or a peer's acceptance.
	reject(call string, ece bool, private []byte) error
	// disconnect takes the queue pair out of service and releases the
	// connection, or answers the peer's release. Doing it again does nothing.
	disconnect() error
	// begun reports whether a peer has been asked, or has asked.
	begun() bool
	// qpDestroyed notes that the queue pair has been destroyed.
	qpDestroyed()
	// peerSpoke notes that a packet of the peer has reached the queue pair.
	peerSpoke()
	// attrFor fills the attributes of a queue pair for a state; false if the
	// peer must be known for it and is not.
	attrFor(s ib.QPState, t ib.QPType) (ib.QPAttr, ib.QPAttrMask, bool)
	// destroy ends pending work and gives the port back. It is called last, in the state destroyed
	// and without mu.
	destroy()
}
