// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"cmp"
	"syscall"

	"verbena/ib"
	"verbena/internal/wire/cm"
)

// The port space decides whether an identifier is for connections or datagrams. In the IB port
// space the type of its queue pair does: ID.typ, which is zero until it is settled.

// serves reports whether a type of queue pairs goes with a port space.
func serves(ps PortSpace, t ib.QPType) bool {
	switch t {
	case ib.QPTypeRC, ib.QPTypeXRCSend, ib.QPTypeXRCRecv:
		return ps == TCP || ps == IB
	case ib.QPTypeUC:
		return ps == IB
	case ib.QPTypeUD:
		return ps != TCP
	}
	return false
}

// usualType returns the type of an ID of a port space.
func usualType(ps PortSpace) ib.QPType {
	switch ps {
	case TCP:
		return ib.QPTypeRC
	case UDP, IPoIB:
		return ib.QPTypeUD
	}
	return 0
}

// SetQPType sets the type of queue pairs that the ID is for, as ai_qp_type does for
// rdma_create_ep(3). In the IB port space a listener then refuses other requests, and Connect asks
// for a connection or for datagrams accordingly. CreateQP, UseQP and Connect's parameters settle
// the type as well.
//
// Errors: EINVAL for a type that does not go with the port space, or with an earlier choice, and
// once the ID listens; EOPNOTSUPP for a type that the ID's kind of devices does not have.
func (id *ID) SetQPType(t ib.QPType) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.state == stListening {
		return invalid("SetQPType", "the ID is %v", id.state)
	}
	return id.become(t)
}

// become settles the ID's type. The caller holds mu.
func (id *ID) become(t ib.QPType) error {
	if !serves(id.ps, t) {
		return invalid("type", "%v does not go with port space %v", t, id.ps)
	}
	if !id.mgr.servers[id.kind].has(id.ps, t) {
		return fail(syscall.EOPNOTSUPP, "type",
			"%v: devices of kind %s have reliable connections only", t, id.kind)
	}
	if id.proto.begun() && (t == ib.QPTypeUD) != id.datagrams() {
		return invalid("type", "%v: the peer was asked for %v, or asks for it", t, id.typ)
	}
	id.typ = t
	return nil
}

// datagrams reports whether the ID's requests, sent or received, are for a datagram queue pair
// (SIDR) rather than for a connection. The caller holds mu.
func (id *ID) datagrams() bool { return id.typ == ib.QPTypeUD }

// takes reports whether a listener takes requests for a type. It needs no lock: typ is settled
// before the ID listens.
// Source: cma_ib_check_req_qp_type in Linux.
func (id *ID) takes(t ib.QPType) bool {
	return serves(id.ps, t) && (id.ps != IB || id.typ == 0 || id.typ == t) &&
		id.mgr.servers[id.kind].has(id.ps, t)
}

// connectType returns the type of queue pairs of a Connect.
func (id *ID) connectType(p *ConnParam) ib.QPType {
	if id.qp != nil {
		return id.qp.Type()
	}
	if id.ps == UDP || id.ps == IPoIB {
		return ib.QPTypeUD
	}
	return cmp.Or(p.QPType, id.typ, ib.QPTypeRC)
}

// serviceOf returns the transport service of a type of queue pairs.
func serviceOf(t ib.QPType) cm.TransportService {
	switch t {
	case ib.QPTypeUC:
		return cm.ServiceUC
	case ib.QPTypeXRCSend, ib.QPTypeXRCRecv:
		return cm.ServiceExtended
	}
	return cm.ServiceRC
}

// requestType returns the type of queue pair that answers a request for a transport service.
func requestType(s cm.TransportService) ib.QPType {
	switch s {
	case cm.ServiceUC:
		return ib.QPTypeUC
	case cm.ServiceExtended:
		return ib.QPTypeXRCRecv
	}
	return ib.QPTypeRC
}
