// SPDX-License-Identifier: BSD-2-Clause

package ibcm

import (
	"encoding/binary"

	"verbena/internal/fsm"
	"verbena/internal/wire/cm"
)

// Target is the kind of process, of several on one address, that a MAD is for.
type Target uint8

// Targets.
const (
	ToNobody   Target = iota // no CM message
	ToListener               // the process that listens to Route.ServiceID
	ToSlot                   // the process whose communication ids begin with Route.Slot
	ToAll                    // names no id of ours: every process looks for it
)

// Route names the process that a MAD is for.
type Route struct {
	Target    Target
	ServiceID cm.ServiceID // of ToListener
	Slot      uint16       // of ToSlot
}

// RouteOf reads as much of a MAD as it takes to hand it to the right process.
func RouteOf(mad []byte) Route {
	h, b, ok := cm.ParseHeader(mad)
	if !ok || len(mad) != cm.MADSize || h.Class != cm.Class {
		return Route{}
	}
	switch h.Attribute {
	case cm.AttrREQ, cm.AttrSIDRREQ: // service id at the same place in both
		return Route{Target: ToListener, ServiceID: cm.ServiceID(binary.BigEndian.Uint64(b[8:]))}
	case cm.AttrSIDRREP: // our request id
		return toSlot(binary.BigEndian.Uint32(b))
	case cm.AttrDREP:
		if id := binary.BigEndian.Uint32(b[4:]); id != 0 {
			return toSlot(id)
		}
		return Route{Target: ToAll} // denies a request, to which we have given no id: see challenge
	case cm.AttrREJ:
		if id := binary.BigEndian.Uint32(b[4:]); id != 0 {
			return toSlot(id)
		}
		return Route{Target: ToAll} // a time-out of a peer that never learnt our id
	}
	if !h.Attribute.Valid() {
		return Route{}
	}
	return toSlot(binary.BigEndian.Uint32(b[4:])) // remote communication id
}

func toSlot(id uint32) Route { return Route{Target: ToSlot, Slot: uint16(id >> slotShift)} }

// Will returns the message to be sent when this process can no longer speak for an established
// connection: a DREQ, or a DREP if the peer's DREQ is not answered yet. A surviving process sends
// it for us, so that the peer need not wait for retries to run out. It is false while nothing is to
// be released.
func (a *Agent) Will(id ConnID) (Datagram, bool) {
	c := a.conns[id]
	if c != nil && c.state == DreqRcvd {
		drep := cm.DREP{LocalCommID: c.localID, RemoteCommID: c.remoteID}
		return Datagram{Path: c.path, MAD: encode(cm.AttrDREP, c.tid, &drep)}, true
	}
	if c == nil || !(fsm.SetOf(RepSent, MRARepRcvd, Established)).Has(c.state) {
		return Datagram{}, false
	}
	dreq := cm.DREQ{LocalCommID: c.localID, RemoteCommID: c.remoteID, RemoteQPN: c.qp.DestQPN}
	return Datagram{Path: c.path, MAD: encode(cm.AttrDREQ, c.tid+1, &dreq)}, true
}
