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

	naked bool // a NAK for epsn is out; say nothing more until it arrives

	delivered bool // a receive completed since the last acknowledgement was sent
	ackWaited bool // the acknowledgement owed let one train of requests go first

	out   []response // owed to the peer, oldest first, in PSN order
	saved []resource // READs and atomics that duplicates may name
	fatal response   // the NAK that ended the queue pair, for those who missed it
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
	orig     uint64 // atomic: what was there
	// READ
	va    uint64
	rkey  ib.RKey
	left  uint32
	begun bool
}

type responseKind uint8

const (
	respNone responseKind = iota
	respAck
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
}

// maxResponses bounds what is owed at a time: the READs and atomics the
// requester may have outstanding, each preceded by one coalesced
// acknowledgement, as first request and again as duplicate.
const maxResponses = 4 * 128

func (r *responder) start(psn ib.PSN) {
	*r = responder{epsn: psn, out: r.out[:0], saved: r.saved[:0]}
}

// verdict is what a check says about a request.
type verdict uint8

const (
	accept verdict = iota
	drop
	nakInvalid
	nakAccess
	nakOp
	nakRNR
)

// handleRequest takes a request packet.
//
// Spec: IBTA vol. 1, 9.7.4.1 and figures 79 to 84 (responder validation).
func (q *QP) handleRequest(p *wire.Packet) {
	r := &q.resp
	if v := q.checkPSN(p); v != accept {
		return
	}
	if !p.Info.Valid { // Spec: IBTA C9-113
		q.refuse(p, nakInvalid, ib.VendorOpcode)
		return
	}
	if v := q.checkSequence(p); v != accept {
		q.refuse(p, v, ib.VendorOpcode)
		return
	}
	if v := q.checkLength(p); v != accept {
		q.refuse(p, v, ib.VendorLength)
		return
	}
	v, detail := q.execute(p)
	if v != accept {
		q.refuse(p, v, detail)
		return
	}
	r.naked = false
}

// checkPSN sorts out duplicates and gaps.
func (q *QP) checkPSN(p *wire.Packet) verdict {
	r := &q.resp
	switch d := p.PSN.Diff(r.epsn); {
	case d == 0:
		return accept
	case d < 0:
		q.Count[roce.DuplicateRequest]++
		q.handleDuplicate(p)
		return drop
	}
	q.Count[roce.OutOfSeqRequest]++
	if !r.naked { // Spec: IBTA C9-111: one NAK until the expected packet comes
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
	if q.resp.in != want {
		return nakInvalid
	}
	need := ib.Access(0)
	switch {
	case roce.IsWrite(p.Opcode), p.Opcode == wire.RCAtomicWrite:
		need = ib.AccessRemoteWrite
	case p.Opcode == wire.RCRDMAReadRequest:
		need = ib.AccessRemoteRead
	case p.Opcode == wire.RCCompareSwap, p.Opcode == wire.RCFetchAdd:
		need = ib.AccessRemoteAtomic
	case p.Opcode == wire.RCFlush:
		return q.checkFlush(p)
	}
	if !q.Attr.AccessFlags.Has(need) {
		return nakInvalid
	}
	return accept
}

// checkFlush checks that the placement asked for is one granted.
func (q *QP) checkFlush(p *wire.Packet) verdict {
	if p.FETH.PLT == 0 || p.FETH.SEL > ib.FlushMR || !q.Attr.AccessFlags.Has(flushAccess(p.FETH.PLT)) {
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

// checkLength checks the payload against the path MTU and the length that a
// WRITE announced.
//
// Spec: IBTA vol. 1, 9.7.4.1.6 (C9-115 to C9-119).
func (q *QP) checkLength(p *wire.Packet) verdict {
	i, n := p.Info, len(p.Payload)
	if !i.HasPayload {
		if i.HasRETH && p.RETH.DMALen > ib.MaxMessage {
			return nakInvalid
		}
		return accept
	}
	switch {
	case p.Opcode == wire.RCAtomicWrite:
		if n != 8 || p.RETH.DMALen != 8 {
			return nakInvalid
		}
		return accept
	case n > q.MTU,
		!i.Last && n != q.MTU,
		i.Last && !i.First && n == 0:
		return nakInvalid
	}
	if !roce.IsWrite(p.Opcode) {
		return accept
	}
	got, total := q.resp.got, q.resp.total
	if i.First {
		got, total = 0, p.RETH.DMALen
	}
	sum := uint64(got) + uint64(n)
	if total > ib.MaxMessage || sum > uint64(total) || i.Last != (sum == uint64(total)) {
		return nakInvalid
	}
	return accept
}

// execute carries a valid request out.
func (q *QP) execute(p *wire.Packet) (verdict, ib.VendorErr) {
	switch {
	case p.Opcode == wire.RCRDMAReadRequest:
		return q.executeRead(p)
	case p.Opcode == wire.RCCompareSwap, p.Opcode == wire.RCFetchAdd:
		return q.executeAtomic(p)
	case p.Opcode == wire.RCAtomicWrite:
		return q.executeAtomicWrite(p)
	case p.Opcode == wire.RCFlush:
		return q.executeFlush(p)
	case roce.IsWrite(p.Opcode):
		return q.executeWrite(p)
	}
	return q.executeSend(p)
}

func (q *QP) executeSend(p *wire.Packet) (verdict, ib.VendorErr) {
	r, i := &q.resp, p.Info
	if i.First {
		if !q.TakeRecv() {
			return nakRNR, ib.VendorRNR
		}
		r.got = 0
	}
	n := uint32(len(p.Payload))
	if uint64(r.got)+uint64(n) > uint64(q.Recv.Length) {
		return q.failRecv(nakInvalid, ib.WCLocLenErr, ib.VendorLength)
	}
	if s, v := q.Scatter(q.Recv.SGE, int(r.got), p.Payload); s != ib.WCSuccess {
		return q.failRecv(nakOp, s, v)
	}
	if i.HasIETH {
		if v := q.Mem.Invalidate(q.PD, q.QPN, p.IETH.RKey, true); v != ib.VendorNone {
			return q.failRecv(nakAccess, ib.WCLocAccessErr, v)
		}
	}
	r.got += n
	r.in = inSend
	q.acceptPacket(p)
	if i.Last {
		q.completeRecv(p, ib.WCRecv, r.got)
	}
	return accept, ib.VendorNone
}

func (q *QP) executeWrite(p *wire.Packet) (verdict, ib.VendorErr) {
	r, i := &q.resp, p.Info
	va, key, got := r.va, r.rkey, r.got
	if i.First {
		va, key, got = p.RETH.VA, p.RETH.RKey, 0
		// The whole range is checked at once, so that nothing is placed where not
		// everything may be; each packet checks again, as the key may go meanwhile.
		if n := p.RETH.DMALen; n > 0 && !i.Last {
			s, v := q.Mem.Remote(q.PD, q.QPN, key, va, n, ib.AccessRemoteWrite)
			if v != ib.VendorNone {
				return nakAccess, v
			}
			s.Release()
		}
	}
	if i.ConsumesRecv && !q.TakeRecv() {
		return nakRNR, ib.VendorRNR
	}
	n := uint32(len(p.Payload))
	if n > 0 { // Spec: IBTA C9-88: a WRITE of no bytes checks no key
		s, v := q.Mem.Remote(q.PD, q.QPN, key, va, n, ib.AccessRemoteWrite)
		if v != ib.VendorNone {
			return nakAccess, v
		}
		s.CopyIn(0, p.Payload)
		s.Release()
	}
	if i.First {
		r.total, r.rkey = p.RETH.DMALen, key
	}
	r.va, r.got = va+uint64(n), got+n
	r.in = inWrite
	q.acceptPacket(p)
	if i.Last && i.ConsumesRecv {
		q.completeRecv(p, ib.WCRecvRDMAWithImm, r.total)
	}
	return accept, ib.VendorNone
}

// acceptPacket moves the expected PSN past a SEND or WRITE packet and owes an
// acknowledgement where one is asked for.
func (q *QP) acceptPacket(p *wire.Packet) {
	r := &q.resp
	r.epsn = r.epsn.Add(1)
	if p.Info.Last {
		r.in = inNone
		r.msn = r.msn.Add(1)
		q.Count[roce.RcvdMessages]++
	}
	if p.AckReq {
		q.oweAck(p.PSN)
	}
}

// completeRecv reports the receive that a message took.
func (q *QP) completeRecv(p *wire.Packet, op ib.WCOpcode, n uint32) {
	q.resp.delivered = true
	wc := ib.WC{Opcode: op, ByteLen: n, SrcQP: q.Attr.DestQPN}
	if p.Info.HasImm {
		wc.Flags, wc.ImmData = ib.WCWithImm, p.ImmDt.Data
	}
	if p.Info.HasIETH {
		wc.Flags, wc.InvalidatedRKey = ib.WCWithInv, p.IETH.RKey
	}
	q.CompleteRecv(&wc, p.Solicited)
}

// failRecv ends the receive in progress with an error.
func (q *QP) failRecv(v verdict, s ib.WCStatus, d ib.VendorErr) (verdict, ib.VendorErr) {
	q.FailRecv(s, d)
	return v, d
}

// room reports whether one more READ or atomic may be accepted.
func (q *QP) room() bool {
	n := 0
	for i := range q.resp.out {
		if o := &q.resp.out[i]; o.kind >= respRead && !o.dup {
			n++
		}
	}
	return n < int(q.Attr.MaxDestRdAtomic)
}

func (q *QP) executeRead(p *wire.Packet) (verdict, ib.VendorErr) {
	r, h := &q.resp, p.RETH
	if !q.room() {
		return nakInvalid, ib.VendorDepth
	}
	if h.DMALen > 0 {
		s, v := q.Mem.Remote(q.PD, q.QPN, h.RKey, h.VA, h.DMALen, ib.AccessRemoteRead)
		if v != ib.VendorNone {
			return nakAccess, v
		}
		s.Release()
	}
	last := p.PSN.Add(q.Packets(h.DMALen) - 1)
	r.epsn = last.Add(1)
	r.msn = r.msn.Add(1)
	q.save(resource{kind: respRead, first: p.PSN, last: last})
	q.owe(response{kind: respRead, psn: p.PSN, msn: r.msn, va: h.VA, rkey: h.RKey, left: h.DMALen})
	return accept, ib.VendorNone
}

func (q *QP) executeAtomic(p *wire.Packet) (verdict, ib.VendorErr) {
	h := p.AtomicETH
	if !q.room() {
		return nakInvalid, ib.VendorDepth
	}
	if h.VA&7 != 0 { // Spec: IBTA C9-93
		return nakInvalid, ib.VendorAlign
	}
	s, v := q.Mem.Remote(q.PD, q.QPN, h.RKey, h.VA, 8, ib.AccessRemoteAtomic)
	switch v {
	case ib.VendorNone:
	case ib.VendorAlign:
		return nakInvalid, v
	default:
		return nakAccess, v
	}
	var orig uint64
	if p.Opcode == wire.RCCompareSwap {
		orig = s.CompareSwap(h.Compare, h.SwapAdd)
	} else {
		orig = s.FetchAdd(h.SwapAdd)
	}
	s.Release()
	q.acceptSingle(p, respAtomic, orig)
	return accept, ib.VendorNone
}

func (q *QP) executeAtomicWrite(p *wire.Packet) (verdict, ib.VendorErr) {
	if !q.room() {
		return nakInvalid, ib.VendorDepth
	}
	if p.RETH.VA&7 != 0 {
		return nakInvalid, ib.VendorAlign
	}
	s, v := q.Mem.Remote(q.PD, q.QPN, p.RETH.RKey, p.RETH.VA, 8, ib.AccessRemoteWrite)
	switch v {
	case ib.VendorNone:
	case ib.VendorAlign:
		return nakInvalid, v
	default:
		return nakAccess, v
	}
	s.Store8(host64(p.Payload))
	s.Release()
	q.acceptSingle(p, respEmptyRead, 0)
	return accept, ib.VendorNone
}

// executeFlush makes earlier WRITEs visible or persistent. Placement here is
// always visible once executed; memory is as persistent as what backs it.
func (q *QP) executeFlush(p *wire.Packet) (verdict, ib.VendorErr) {
	if !q.room() {
		return nakInvalid, ib.VendorDepth
	}
	if n := p.RETH.DMALen; n > 0 && p.FETH.SEL == ib.FlushRange {
		s, v := q.Mem.Remote(q.PD, q.QPN, p.RETH.RKey, p.RETH.VA, n, flushAccess(p.FETH.PLT))
		if v != ib.VendorNone {
			return nakAccess, v
		}
		s.Release()
	} else if p.FETH.SEL == ib.FlushMR {
		s, v := q.Mem.Remote(q.PD, q.QPN, p.RETH.RKey, p.RETH.VA, 1, flushAccess(p.FETH.PLT))
		if v != ib.VendorNone {
			return nakAccess, v
		}
		s.Release()
	}
	q.acceptSingle(p, respEmptyRead, 0)
	return accept, ib.VendorNone
}

// acceptSingle owes the response of a request that one packet answers and
// keeps it for duplicates.
func (q *QP) acceptSingle(p *wire.Packet, k responseKind, orig uint64) {
	r := &q.resp
	r.epsn = r.epsn.Add(1)
	r.msn = r.msn.Add(1)
	q.save(resource{kind: k, first: p.PSN, last: p.PSN, orig: orig})
	q.owe(response{kind: k, psn: p.PSN, msn: r.msn, orig: orig})
}

// save keeps a READ or atomic for duplicates; the oldest makes room.
func (q *QP) save(s resource) {
	r := &q.resp
	if len(r.saved) >= int(q.Attr.MaxDestRdAtomic) && len(r.saved) > 0 {
		r.saved = r.saved[:copy(r.saved, r.saved[1:])]
	}
	r.saved = append(r.saved, s)
}

// refuse tells the requester why a request is not carried out and, unless it
// is to be tried again, ends the queue pair.
//
// Spec: IBTA vol. 1, 9.9.3 and table 61 (responder error behaviour).
func (q *QP) refuse(p *wire.Packet, v verdict, detail ib.VendorErr) {
	r := &q.resp
	if v == nakRNR {
		r.naked = true // for what follows; this one may come again and again
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
