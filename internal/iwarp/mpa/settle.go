// SPDX-License-Identifier: BSD-2-Clause

package mpa

import wire "verbena/internal/wire/iwarp"

// RTR is the kind of the ready-to-receive message: the first FPDU of an
// initiator in peer-to-peer mode, after which the responder may send too.
//
// Spec: RFC 6581, 9.1.
type RTR uint8

// Kinds.
const (
	RTRNone  RTR = iota // client-server: the initiator's first message does it
	RTREmpty            // an FPDU of no bytes
	RTRWrite            // an RDMA WRITE of no bytes
	RTRRead             // an RDMA READ of no bytes
)

func (k RTR) String() string { return [...]string{"none", "empty FPDU", "WRITE", "READ"}[k] }

// RTRSet is a set of kinds.
type RTRSet uint8

// RTRs returns a set.
func RTRs(kinds ...RTR) (s RTRSet) {
	for _, k := range kinds {
		s |= 1 << k
	}
	return s
}

// Has reports whether a kind is in the set.
func (s RTRSet) Has(k RTR) bool { return s>>k&1 != 0 }

// preference is the order in which one kind is picked: READ first, which both
// siw and iw_cxgb4 do, and the responder answers.
var preference = [...]RTR{RTRRead, RTRWrite, RTREmpty}

// offered returns the kinds that enhanced data name.
func offered(e wire.Enhanced) (s RTRSet) {
	if !e.PeerToPeer {
		return 0
	}
	if e.EmptyFPDU {
		s |= RTRs(RTREmpty)
	}
	if e.WriteRTR {
		s |= RTRs(RTRWrite)
	}
	if e.ReadRTR {
		s |= RTRs(RTRRead)
	}
	return s
}

func (s RTRSet) into(e *wire.Enhanced) {
	e.EmptyFPDU, e.WriteRTR, e.ReadRTR = s.Has(RTREmpty), s.Has(RTRWrite), s.Has(RTRRead)
}

// Settled has the results of a connection's set-up.
type Settled struct {
	CRC         bool // FPDUs carry CRCs, in both directions
	Extensions  bool // both ends say that they have RFC 7306
	SendMarkers bool // the peer asked for markers
	IRD, ORD    uint16
	// RTR is the initiator's ready-to-receive message. With RTRNone its first message may be any,
	// and the responder waits for it.
	RTR RTR
}

// offer returns the enhanced data of a Request.
func (c *Conn) offer() wire.Enhanced {
	e := wire.Enhanced{IRD: min(c.opt.IRD, wire.MaxDepth), ORD: min(c.opt.ORD, wire.MaxDepth),
		PeerToPeer: c.opt.RTR != 0}
	c.opt.RTR.into(&e)
	return e
}

// settleInitiator takes the Reply's word, or fails.
//
// Spec: RFC 6581, 9.1 and 9.2.
func (c *Conn) settleInitiator() {
	f, s := &c.peer, &c.settled
	*s = Settled{CRC: c.opt.CRC || f.CRC, Extensions: c.opt.Extensions && f.Extensions,
		SendMarkers: f.Markers, IRD: c.opt.IRD, ORD: c.opt.ORD}
	if f.IsEnhanced {
		if f.Enhanced.IRD != wire.AnyDepth {
			s.ORD = min(s.ORD, f.Enhanced.IRD)
		}
		if f.Enhanced.ORD != wire.AnyDepth && f.Enhanced.ORD > s.IRD {
			c.failWith(ReasonInsufficient, wire.MPAInsufficientIRD)
			return
		}
	}
	if c.opt.RTR != 0 && f.IsEnhanced {
		if s.RTR = pick(offered(f.Enhanced) & c.opt.RTR); s.RTR == RTRNone &&
			f.Enhanced.PeerToPeer {
			c.failWith(ReasonNoRTR, wire.MPANoMatchingRTR)
			return
		}
	}
	c.setState(StateReady)
}

// settleResponder completes the Reply.
//
// Spec: RFC 6581, 9.1 and 9.2: the responder echoes control flag A, picks a
// kind, and answers with depths that the Request's allow.
func (c *Conn) settleResponder(ird, ord uint16, f *wire.MPAFrame) {
	req, s := &c.peer, &c.settled
	*s = Settled{CRC: f.CRC, Extensions: f.Extensions, SendMarkers: req.Markers, IRD: ird, ORD: ord}
	if !req.IsEnhanced {
		return
	}
	e := &f.Enhanced
	*e = wire.Enhanced{PeerToPeer: req.Enhanced.PeerToPeer}
	if s.RTR = pick(offered(req.Enhanced) & c.opt.RTR); s.RTR != RTRNone {
		RTRs(s.RTR).into(e)
	}
	if req.Enhanced.IRD != wire.AnyDepth {
		s.ORD = min(s.ORD, req.Enhanced.IRD)
	}
	e.IRD, e.ORD = min(s.IRD, wire.MaxDepth), min(s.ORD, wire.MaxDepth)
	if req.Enhanced.ORD != wire.AnyDepth {
		e.IRD = min(e.IRD, req.Enhanced.ORD)
	}
	if s.RTR == RTRRead { // it takes the place of a READ
		s.IRD, e.IRD = max(s.IRD, 1), max(e.IRD, 1)
	}
}

// pick returns one kind of a set, RTRNone of the empty one.
func pick(s RTRSet) RTR {
	for _, k := range preference {
		if s.Has(k) {
			return k
		}
	}
	return RTRNone
}
