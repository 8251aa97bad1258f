// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import "verbena/ib"

// Route is the path to the peer, as far as it is known: rdma_route.
type Route struct {
	SGIDIndex      uint8 // in the GID table of the device's port, which is 1
	SGID, DGID     ib.GID
	MTU            ib.MTU // of the path
	TrafficClass   uint8
	PKey           ib.PKey
	PacketLifeTime uint8 // 4.096 µs × 2^n
	Resolved       bool  // the path may be used: after ResolveRoute, and on the ID of a request
}

// packetLifeTime is the lifetime that Linux assumes of Ethernet: IBOE_PACKET_LIFETIME.
const packetLifeTime = 18

// Route returns the ID's route, all zero while it has no device.
func (id *ID) Route() Route {
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.at.verbs == nil {
		return Route{}
	}
	r := Route{
		SGIDIndex: id.at.sgidIndex(), SGID: ib.GIDFromAddr(id.at.addr.WithZone("")),
		MTU: id.at.mtu(), TrafficClass: id.tos, PKey: ib.DefaultPKey,
		PacketLifeTime: packetLifeTime, Resolved: id.state >= stRouteResolved &&
			id.state != stListening,
	}
	if id.peer.Addr().IsValid() {
		r.DGID = ib.GIDFromAddr(id.peer.Addr().WithZone(""))
	}
	return r
}
