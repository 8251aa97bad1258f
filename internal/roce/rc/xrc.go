// SPDX-License-Identifier: BSD-2-Clause

package rc

import (
	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/qp"
	"verbena/internal/queue"
	"verbena/internal/roce"
	wire "verbena/internal/wire/roce"
)

// Extended reliable connected is this service but for where a message goes. An
// initiator has a requester only and names a shared receive queue in each
// request. A target has a responder only and works for the queue named: with
// its receives, its completion queue and the memory of its protection domain.
// There are no end-to-end credits.
//
// Spec: IBTA annex A14.

// Inbox is a shared receive queue as the targets of its domain see it.
// Immutable.
type Inbox struct {
	PD  mem.PD
	Mem *mem.Table
	RQ  qp.RecvSource
	CQ  qp.Completer
}

// Domain finds a shared receive queue of an XRC domain by its number, nil if
// there is none. It is asked anew for each packet and must not block.
type Domain func(ib.SRQN) *Inbox

// flavour holds the differences of XRC. Immutable.
type flavour struct {
	service wire.Service
	base    wire.Opcode // where the opcodes of the service start
	sends   bool        // it has a requester
	serves  bool        // it has a responder
	domain  Domain      // of a target, else nil
	shared  *shared     // of a target whose domain others share, else nil
	// of a target for requests that another process's passes on
	forOthers bool
}

var connected = flavour{service: wire.ServiceRC, base: wire.RCSendFirst, sends: true, serves: true}

// NewXRCSend returns an initiator in the RESET state. It uses only the fields of c that concern
// sending.
func NewXRCSend(c roce.Config) *QP {
	c.RQ, c.RecvCQ, c.SRQ = queue.NewRecvQueue(0, 0), nil, false
	return newQP(c, flavour{service: wire.ServiceXRC, base: wire.XRCSendFirst, sends: true})
}

// NewXRCRecv returns a target of a domain in the RESET state. It uses only the fields QPN and
// Reorder of c: all else comes from the shared receive queues.
func NewXRCRecv(c roce.Config, d Domain) *QP {
	c = roce.Config{QPN: c.QPN, SQ: queue.NewSendQueue(0, 0, 0), SRQ: true, Reorder: c.Reorder}
	return newQP(c, flavour{service: wire.ServiceXRC, base: wire.XRCSendFirst, serves: true,
		domain: d})
}

// NewXRCForOthers returns a target for the requests that one of another process passes on.
func NewXRCForOthers(c roce.Config, d Domain) *QP {
	q := NewXRCRecv(c, d)
	q.forOthers = true
	return q
}

// checkXRC turns a target to the shared receive queue that a request names.
// All packets of a message name the same.
//
// A number without a queue in the domain is refused as a key would be: the
// annex gives both an affiliated access error (invalid XRCETH, XRC domain
// violation).
func (q *QP) checkXRC(p *wire.Packet) (verdict, ib.VendorErr) {
	if q.domain == nil {
		return accept, ib.VendorNone
	}
	n := p.XRCETH.SRQ
	if q.isPiece(p) {
		return accept, ib.VendorNone
	}
	if q.resp.in != inNone && n != q.resp.srq {
		return nakInvalid, ib.VendorOpcode
	}
	box := q.domain(n)
	q.away.to = nil
	if box == nil && q.shared != nil {
		return q.shared.check(q, n)
	}
	if box == nil {
		return nakAccess, ib.VendorPD
	}
	if q.away.cur != nil {
		return stall, ib.VendorNone
	}
	if p.Info.Operation == wire.OpSend && q.resp.owesAway() { // it may fail, with its receive
		return stall, ib.VendorNone
	}
	q.resp.srq = n
	q.PD, q.SRQPD, q.Mem, q.RQ, q.RecvCQ = box.PD, box.PD, box.Mem, box.RQ, box.CQ
	return accept, ib.VendorNone
}

// isPiece reports whether a request is a READ of a piece. It belongs to no message, and comes in
// the middle of one, too: for a response that the other target still owes.
func (q *QP) isPiece(p *wire.Packet) bool {
	return q.forOthers && p.Info.Operation == wire.OpRDMARead
}

// source returns the memory that a READ of a shared receive queue comes from. That of a target is
// gone once the queue is.
func (q *QP) source(n ib.SRQN) (mem.PD, *mem.Table, mem.AccessError) {
	if q.domain == nil {
		return q.PD, q.Mem, ib.VendorNone
	}
	box := q.domain(n)
	if box == nil {
		return 0, nil, ib.VendorPD
	}
	return box.PD, box.Mem, ib.VendorNone
}

// Forget tells a target that a shared receive queue, which its domain does not
// find any more, is being destroyed: a receive taken from it makes no
// completion.
func (q *QP) Forget(n ib.SRQN) {
	if q.domain != nil && q.resp.srq == n {
		q.RecvHeld = false
	}
}
