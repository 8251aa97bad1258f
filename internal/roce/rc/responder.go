// SPDX-License-Identifier: BSD-2-Clause

package rc

import (
	"verbena/ib"
	"verbena/internal/roce"
	wire "verbena/internal/wire/roce"
)

// responder is the receiving half.
type responder struct {
	epsn ib.PSN // expected
	msn  ib.MSN // messages completed

	// the message in progress
	in    message
	got   uint32 // bytes placed so far
	total uint32 // WRITE: length announced
	va    uint64 // WRITE: where the next byte goes
	rkey  ib.RKey
	srq   ib.SRQN // XRC: the shared receive queue of the newest message
	tag   tagState

	naked bool // a NAK for epsn is out; say nothing more until it arrives
	kept  kept // packets that arrived after epsn
	// the request being carried out is a READ that was answered before its turn
	answered bool

	delivered bool // a receive completed since the last acknowledgement was sent
	awaited   bool // the peer's application may wait for the acknowledgement owed
	ackWaited bool // the acknowledgement owed let one burst of requests go first

	foreign bool          // the newest READ or atomic is not of an end of Verbena
	rate    *responseRate // of responses to a foreign requester; nil is no limit

	out   []response // owed to the peer, oldest first, in PSN order
	saved []resource // READs and atomics that duplicates may name
	fatal response   // the NAK that ended the queue pair, in case the requester missed it
}

// message is the kind of message in progress.
type message uint8

const (
	inNone  message = iota // between messages
	inSend                 // after SEND First
	inWrite                // after RDMA WRITE First
)

// response is something owed to the peer.
type response struct {
	kind     responseKind
	dup      bool   // answers a repeated request
	psn      ib.PSN // of the acknowledgement, or of the next READ response
	syndrome wire.Syndrome
	msn      ib.MSN
	orig     uint64 // atomic: the word before
	// READ
	srq   ib.SRQN // XRC
	away  bool    // XRC: the data are another process's
	va    uint64
	rkey  ib.RKey
	left  uint32
	begun bool
}

type responseKind uint8

const (
	respNone responseKind = iota
	respAck
	respSack
	respRead
	respAtomic
	respEmptyRead // answers FLUSH and ATOMIC WRITE
)

// resource is a READ or atomic kept for duplicates.
//
// Spec: IBTA vol. 1, 9.7.5.1.5 (responder resources, duplicate requests).
type resource struct {
	kind        responseKind
	first, last ib.PSN
	orig        uint64
	early       bool // its turn is yet to come: see answerEarly
}

// maxResponses bounds the pending responses: the READs and atomics the requester may have
// outstanding, each preceded by one coalesced acknowledgement, as first request and again as
// duplicate.
const maxResponses = 4 * 128

func (q *QP) startResponder(psn ib.PSN) {
	r := &q.resp
	r.kept.discard(q.Reorder)
	*r = responder{epsn: psn, out: r.out[:0], saved: r.saved[:0]}
}

// verdict is the result of a check of a request.
type verdict uint8

const (
	accept verdict = iota
	drop
	nakInvalid
	nakAccess
	nakOp
	nakRNR
	stall // not now: see away
)

// handleRequest takes a request packet, which says that it stands for n.
//
// Spec: IBTA vol. 1, 9.7.4.1 and figures 79 to 84 (responder validation).
func (q *QP) handleRequest(p *wire.Packet, n uint32) {
	if v := q.checkPSN(p, n); v != accept {
		return
	}
	if q.perform(p, n) && q.resp.kept.count > 0 {
		q.performKept(p.PSN, p.Selective)
	}
}

// perform takes the request expected next and reports whether it was carried out.
func (q *QP) perform(p *wire.Packet, n uint32) bool {
	v, detail := q.carryOut(p, n)
	switch {
	case v == accept:
		q.resp.naked = false
		return true
	case v == drop: // another packet was refused
	// A NAK would acknowledge the requests passed on before this one.
	case v == stall, q.away.cur != nil, q.resp.owesAway():
		q.stall(p, n)
	default:
		q.refuse(p, v, detail)
	}
	return false
}

// carryOut checks a request, and executes it or passes it on.
func (q *QP) carryOut(p *wire.Packet, n uint32) (verdict, ib.VendorErr) {
	if !p.Info.Valid { // Spec: IBTA vol. 1, 9.7.4.1
		return nakInvalid, ib.VendorOpcode
	}
	if v := q.checkSequence(p); v != accept {
		return v, ib.VendorOpcode
	}
	if v := q.checkLength(p, n); v != accept {
		return v, ib.VendorLength
	}
	switch v, detail := q.checkXRC(p); {
	case v != accept:
		return v, detail
	case q.away.to != nil:
		q.shared.packet = *p // the argument of a call by pointer would be allocated
		return q.shared.pass(q, n)
	}
	return q.execute(p)
}

// checkPSN sorts out duplicates and gaps.
func (q *QP) checkPSN(p *wire.Packet, n uint32) verdict {
	r := &q.resp
	switch d := p.PSN.Diff(r.epsn); {
	case q.away.stalled && d == 0: // it is kept already
		return drop
	case d > 0 && q.passing():
		q.keep(p, n)
		q.away.gap = true
		return drop
	case d == 0:
		return accept
	case d < 0:
		q.Count[roce.DuplicateRequest]++
		q.handleDuplicate(p)
		return drop
	}
	q.Count[roce.OutOfSeqRequest]++
	if q.wasEarly(p) {
		q.repeatRead(p)
		return drop
	}
	news := q.keep(p, n)
	answered := q.answerEarly(p.PSN)
	if p.Selective && r.kept.count > 0 {
		if news || p.AckReq && !answered || !r.naked {
			r.naked = true
			q.oweSack()
		}
		return drop
	}
	if !r.naked { // Spec: IBTA vol. 1, 9.7.4.1: one NAK until the expected packet comes
		r.naked = true
		q.Count[roce.SentSeqNAK]++
		q.owe(response{kind: respAck, psn: r.epsn, syndrome: wire.NAKPSNSequence})
	}
	return drop
}

// checkSequence checks that the opcode may follow the one before it, and that
// the queue pair was set up for it.
//
// Spec: IBTA vol. 1, table 38 and 9.7.4.1.2–9.7.4.1.5.
func (q *QP) checkSequence(p *wire.Packet) verdict {
	i := p.Info
	want := inNone
	if !i.First && i.HasPayload {
		want = inSend
		if roce.IsWrite(p.Opcode) {
			want = inWrite
		}
	}
	if q.resp.in != want && !q.isPiece(p) {
		return nakInvalid
	}
	need := ib.Access(0)
	switch i.Operation {
	case wire.OpRDMAWrite, wire.OpAtomicWrite:
		need = ib.AccessRemoteWrite
	case wire.OpRDMARead:
		need = ib.AccessRemoteRead
	case wire.OpCompareSwap, wire.OpFetchAdd:
		need = ib.AccessRemoteAtomic
	case wire.OpFlush:
		return q.checkFlush(p)
	}
	if !q.Attr.AccessFlags.Has(need) {
		return nakInvalid
	}
	return accept
}

// checkFlush checks that the placement asked for is one granted.
func (q *QP) checkFlush(p *wire.Packet) verdict {
	if p.FETH.PLT == 0 || p.FETH.SEL > ib.FlushMR ||
		!q.Attr.AccessFlags.Has(flushAccess(p.FETH.PLT)) {
		return nakInvalid
	}
	return accept
}

func flushAccess(t ib.FlushType) (a ib.Access) {
	if t&ib.FlushGlobal != 0 {
		a |= ib.AccessFlushGlobal
	}
	if t&ib.FlushPersistent != 0 {
		a |= ib.AccessFlushPersistent
	}
	return a
}

// checkLength checks the payload against the path MTU, times the packets that this one stands for,
// and the length that a WRITE announced.
//
// Spec: IBTA vol. 1, 9.7.4.1.6.
func (q *QP) checkLength(p *wire.Packet, packets uint32) verdict {
	i, n := p.Info, len(p.Payload)
	if !i.HasPayload {
		if i.HasRETH && p.RETH.DMALen > ib.MaxMessage {
			return nakInvalid
		}
		return accept
	}
	switch {
	case i.Operation == wire.OpAtomicWrite:
		if n != 8 || p.RETH.DMALen != 8 {
			return nakInvalid
		}
		return accept
	case q.Packets(uint32(n)) != packets,
		!i.Last && n != q.MTU*int(packets),
		i.Last && !i.First && n == 0:
		return nakInvalid
	}
	if !roce.IsWrite(p.Opcode) {
		return accept
	}
	if !roce.IsWithinWrite(p, q.resp.got, q.resp.total) || !q.continues(p) {
		return nakInvalid
	}
	return accept
}

// continues reports whether the RETH of a WRITE's packet that is not the first tells what the First
// has announced. A packet without one does.
func (q *QP) continues(p *wire.Packet) bool {
	r := &q.resp
	return p.Info.First || !p.Info.HasRETH ||
		p.RETH == (wire.RETH{VA: r.va, RKey: r.rkey, DMALen: r.total - r.got})
}

// refuse tells the requester why a request is not carried out and, unless it
// is to be tried again, ends the queue pair.
//
// Spec: IBTA vol. 1, 9.9.3 and table 61 (responder error behaviour).
func (q *QP) refuse(p *wire.Packet, v verdict, detail ib.VendorErr) {
	r := &q.resp
	if v == nakRNR {
		r.naked = true // for the packets that follow; this one may come again and again
		q.Count[roce.SentRNRNAK]++
		q.owe(response{kind: respAck, psn: p.PSN, syndrome: wire.RNRNAK(q.Attr.MinRNRTimer)})
		return
	}
	code, event := wire.NAKInvalidRequest, ib.EventQPReqErr
	switch v {
	case nakAccess:
		code, event = wire.NAKRemoteAccess, ib.EventQPAccessErr
	case nakOp:
		code, event = wire.NAKRemoteOperational, ib.EventQPFatal
	}
	q.Blame(detail)
	q.failResponder(p.PSN, code, event, len(r.out))
}

// failResponder sends the NAK that ends the queue pair, after the oldest keep
// responses: without those the requester could not tell which request failed.
func (q *QP) failResponder(psn ib.PSN, code wire.Syndrome, event ib.EventType, keep int) {
	r := &q.resp
	q.Count[roce.SentErrorNAK]++
	r.fatal = response{kind: respAck, psn: psn, syndrome: code, msn: r.msn}
	q.fail(event) // empties r.out, whose elements stay
	r.out = append(r.out[:keep], r.fatal)
}

// handleAfterFatal answers requests that come after the one refused: their
// sender did not see why, or misses a response from before it.
//
// Deviation: the specification lets a queue pair in the error state drop
// everything, which leaves a requester that lost the NAK to its time-outs.
func (q *QP) handleAfterFatal(p *wire.Packet) {
	r := &q.resp
	q.Count[roce.DroppedState]++
	switch {
	case r.fatal.kind == respNone:
	case p.PSN.Before(r.fatal.psn):
		q.handleDuplicate(p)
	case len(r.out) == 0:
		r.out = append(r.out, r.fatal)
	}
}
