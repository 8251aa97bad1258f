// SPDX-License-Identifier: BSD-2-Clause

package rc

import (
	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/roce"
	wire "verbena/internal/wire/roce"
)

// execute carries a valid request out.
func (q *QP) execute(p *wire.Packet) (verdict, ib.VendorErr) {
	switch p.Info.Operation {
	case wire.OpRDMARead:
		return q.executeRead(p)
	case wire.OpCompareSwap, wire.OpFetchAdd:
		return q.executeAtomic(p)
	case wire.OpAtomicWrite:
		return q.executeAtomicWrite(p)
	case wire.OpFlush:
		return q.executeFlush(p)
	case wire.OpRDMAWrite:
		return q.executeWrite(p)
	}
	return q.executeSend(p)
}

func (q *QP) executeSend(p *wire.Packet) (verdict, ib.VendorErr) {
	if q.Tags != nil {
		return q.executeTagged(p)
	}
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
	if s, v := q.ScatterRecv(int(r.got), p.Payload); s != ib.WCSuccess {
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
		ok := s.CopyIn(0, p.Payload)
		if s.Release(); !ok {
			return nakAccess, ib.VendorFault
		}
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

// acceptPacket moves the expected PSN past a SEND or WRITE packet. It makes an acknowledgement
// pending if one is requested, and if the packet fills a gap: Linux's rxe ignores a second NAK
// until an ACK has come since the first.
func (q *QP) acceptPacket(p *wire.Packet) {
	r := &q.resp
	r.epsn = r.epsn.Add(q.Packets(uint32(len(p.Payload))))
	if p.Info.Last {
		r.in = inNone
		r.msn = r.msn.Add(1)
		q.Count[roce.RcvdMessages]++
	}
	if p.AckReq || r.naked {
		r.awaited = r.awaited || !p.Unawaited
		q.oweAck(r.epsn.Prev())
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
	q.req.heard()
}

// failRecv ends the receive in progress with an error.
func (q *QP) failRecv(v verdict, s ib.WCStatus, d ib.VendorErr) (verdict, ib.VendorErr) {
	q.loseTagged()
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
	early := r.earlyRead(p.PSN)
	if early == nil && !q.room() {
		return nakInvalid, ib.VendorDepth
	}
	left := h.DMALen
	if q.forOthers {
		left = min(left, pieceBytes)
	}
	last := p.PSN.Add(q.Packets(left) - 1)
	pd, table, v := q.source(p.XRCETH.SRQ)
	if v == ib.VendorNone && h.DMALen > 0 {
		var s mem.Span
		s, v = table.Remote(pd, q.QPN, h.RKey, h.VA, h.DMALen, ib.AccessRemoteRead)
		s.Release()
	}
	refused := v != ib.VendorNone
	if refused && !q.forOthers {
		return nakAccess, v
	}
	r.epsn = last.Add(1)
	r.msn = r.msn.Add(1)
	if refused { // the other target judges what that means
		q.owe(response{kind: respAck, psn: p.PSN, syndrome: wire.NAKRemoteAccess})
		return accept, ib.VendorNone
	}
	if early != nil {
		early.early = false
	} else {
		q.save(resource{kind: respRead, first: p.PSN, last: last})
	}
	if !r.answered {
		q.oweAgain(q.readResponse(p), last)
	}
	return accept, ib.VendorNone
}

// readResponse returns the response of a READ.
func (q *QP) readResponse(p *wire.Packet) response {
	q.resp.foreign = !p.Selective
	o := response{kind: respRead, psn: p.PSN, msn: q.resp.msn, srq: p.XRCETH.SRQ, va: p.RETH.VA,
		rkey: p.RETH.RKey, left: p.RETH.DMALen}
	if q.domain != nil {
		o.away = o.left > 0 && q.isAway(o.srq)
		if q.forOthers { // the memory may be gone since, and the queue pair serves on
			o.left, o.dup = min(o.left, pieceBytes), true
		}
	}
	return o
}

// answerEarly answers the READ that is kept at psn before its turn, if its requester permits that.
// Else all READs after a lost one would wait for a round trip, and their responses would come in
// one burst. When its turn has come it is checked like any other.
//
// Deviation: IBTA vol. 1, 9.5: a responder executes requests in the order of their PSNs.
func (q *QP) answerEarly(psn ib.PSN) bool {
	r := &q.resp
	e := r.kept.at(psn)
	if e == nil || e.packet.PSN != psn || e.answered || !e.packet.Overtakes ||
		e.packet.Info.Operation != wire.OpRDMARead {
		return false
	}
	if !q.Attr.AccessFlags.Has(ib.AccessRemoteRead) || !q.room() ||
		q.isAway(e.packet.XRCETH.SRQ) {
		return false
	}
	e.answered = true
	last := psn.Add(q.Packets(e.packet.RETH.DMALen) - 1)
	q.save(resource{kind: respRead, first: psn, last: last, early: true})
	o := q.readResponse(&e.packet)
	o.dup = true // it ends the queue pair when its turn has come, if at all
	q.oweAgain(o, last)
	return true
}

// earlyRead returns the record of the READ at psn if that was answered before its turn.
func (r *responder) earlyRead(psn ib.PSN) *resource {
	for i := range r.saved {
		if s := &r.saved[i]; s.early && s.first == psn {
			return s
		}
	}
	return nil
}

// wasEarly reports whether a request after a gap is a READ, or a part of one, that was answered
// before its turn.
func (q *QP) wasEarly(p *wire.Packet) bool {
	if p.Info.Operation != wire.OpRDMARead {
		return false
	}
	for i := range q.resp.saved {
		if s := &q.resp.saved[i]; s.early && !p.PSN.Before(s.first) && !p.PSN.After(s.last) {
			return true
		}
	}
	return false
}

func (q *QP) executeAtomic(p *wire.Packet) (verdict, ib.VendorErr) {
	h := p.AtomicETH
	if !q.room() {
		return nakInvalid, ib.VendorDepth
	}
	if h.VA&7 != 0 { // Spec: IBTA vol. 1, 9.4.5
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
	var ok bool
	if p.Info.Operation == wire.OpCompareSwap {
		orig, ok = s.CompareSwap(h.Compare, h.SwapAdd)
	} else {
		orig, ok = s.FetchAdd(h.SwapAdd)
	}
	if s.Release(); !ok {
		return nakAccess, ib.VendorFault
	}
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
	ok := s.Store8(host64(p.Payload))
	if s.Release(); !ok {
		return nakAccess, ib.VendorFault
	}
	q.acceptSingle(p, respEmptyRead, 0)
	return accept, ib.VendorNone
}

// executeFlush makes earlier WRITEs visible or persistent. Placement here is always visible once
// executed; memory is as persistent as its backing.
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
	r.foreign = !p.Selective
	q.save(resource{kind: k, first: p.PSN, last: p.PSN, orig: orig})
	q.owe(response{kind: k, psn: p.PSN, msn: r.msn, orig: orig})
}

// save keeps a READ or atomic for duplicates, in the order of their PSNs; the oldest makes room.
func (q *QP) save(s resource) {
	r := &q.resp
	if len(r.saved) >= int(q.Attr.MaxDestRdAtomic) && len(r.saved) > 0 {
		r.saved = r.saved[:copy(r.saved, r.saved[1:])]
	}
	i := len(r.saved)
	for i > 0 && r.saved[i-1].early && r.saved[i-1].first.After(s.first) {
		i--
	}
	r.saved = insert(r.saved, i, s)
}
