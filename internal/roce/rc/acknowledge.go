// SPDX-License-Identifier: BSD-2-Clause

package rc

import (
	"slices"

	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/monotime"
	"verbena/internal/roce"
	wire "verbena/internal/wire/roce"
)

// owe queues a response. A full queue drops it: the requester asks again.
func (q *QP) owe(o response) {
	r := &q.resp
	if len(r.out) == maxResponses {
		return
	}
	if o.kind == respAck {
		o.msn = r.msn
	}
	r.out = append(r.out, o)
}

// oweAck owes a positive acknowledgement; one already owed grows to cover psn.
//
// Spec: IBTA vol. 1, 9.7.5.1.2 (coalesced acknowledge messages).
func (q *QP) oweAck(psn ib.PSN) { q.oweAckOf(psn, q.resp.msn) }

// oweAckOf is oweAck where so many messages were completed at psn.
func (q *QP) oweAckOf(psn ib.PSN, msn ib.MSN) {
	r := &q.resp
	o := response{kind: respAck, psn: psn, syndrome: q.ackSyndrome(), msn: msn}
	if n := len(r.out); n > 0 {
		if last := &r.out[n-1]; last.kind == respAck && last.syndrome.Kind() == wire.KindACK {
			if last.psn.Before(psn) {
				last.psn = psn
			}
			last.syndrome, last.msn = o.syndrome, msn
			return
		}
	}
	if len(r.out) < maxResponses {
		r.out = append(r.out, o)
	}
}

// ackSyndrome encodes the receives posted as credits; a shared receive queue
// gives none. Spec: IBTA vol. 1, 9.7.7.2.4.
func (q *QP) ackSyndrome() wire.Syndrome {
	if q.SRQ {
		return wire.ACK(wire.CreditsInvalid)
	}
	return wire.ACK(wire.CreditCode(uint32(q.RQ.Len())))
}

// handleDuplicate answers a request seen before.
//
// Spec: IBTA vol. 1, 9.7.4.3 (responder: duplicate requests).
func (q *QP) handleDuplicate(p *wire.Packet) {
	switch {
	case p.Info.Operation == wire.OpRDMARead:
		q.repeatRead(p)
	case isSingle(p.Info.Operation):
		q.repeatSingle(p)
	case q.repeatPassed(p.PSN):
	default:
		// Acknowledge at once, also where nothing is asked for: its asker may have
		// been lost.
		q.resp.awaited = true
		q.oweAck(q.receivedAfter(p.PSN))
	}
}

// isSingle reports whether a request is answered by one packet and must not be
// executed twice.
func isSingle(o wire.Operation) bool {
	switch o {
	case wire.OpCompareSwap, wire.OpFetchAdd, wire.OpFlush, wire.OpAtomicWrite:
		return true
	}
	return false
}

// receivedAfter returns the newest PSN that an acknowledgement of the
// duplicate psn may name: not past a READ or atomic, as that would tell the
// requester that its response was lost.
func (q *QP) receivedAfter(psn ib.PSN) ib.PSN {
	for i := range q.resp.saved {
		// One that is half of the PSNs old or more seems to come.
		if f := q.resp.saved[i].first; f.After(psn) && f.Before(q.resp.epsn) {
			return f.Prev()
		}
	}
	return q.resp.epsn.Prev()
}

// repeatRead executes a READ again, or the rest of it. All of it must have been executed before,
// else it is no duplicate.
func (q *QP) repeatRead(p *wire.Packet) {
	n := p.RETH.DMALen
	if n > ib.MaxMessage {
		q.Count[roce.UnexpectedPacket]++
		return
	}
	last := p.PSN.Add(q.Packets(n) - 1)
	if last.Before(p.PSN) || !q.savedRead(p.PSN, last) {
		q.Count[roce.UnexpectedPacket]++
		return
	}
	o := q.readResponse(p)
	o.dup = true
	q.oweAgain(o, last)
}

// oweAgain owes the response of a repeated request whose last PSN is last, in
// its place among the others: a response that overtakes an earlier one tells
// the requester that the earlier was lost. One that is still owed starts anew, unless only a part
// of it was asked for again.
func (q *QP) oweAgain(o response, last ib.PSN) {
	r := &q.resp
	i := 0
	for i < len(r.out) && r.out[i].psn.Before(o.psn) {
		i++
	}
	if i < len(r.out) && r.out[i].kind >= respRead && !r.out[i].psn.After(last) {
		end := r.out[i].psn.Add(q.Packets(r.out[i].left) - 1)
		switch {
		case !end.After(last):
			r.out[i] = o
			return
		case r.out[i].psn == o.psn:
			return
		}
	}
	if len(r.out) < maxResponses {
		r.out = insert(r.out, i, o)
	}
}

func (q *QP) savedRead(first, last ib.PSN) bool {
	for i := range q.resp.saved {
		s := &q.resp.saved[i]
		if s.kind == respRead && !first.Before(s.first) && !last.After(s.last) &&
			(s.early || s.last.Before(q.resp.epsn)) {
			return true
		}
	}
	return false
}

// repeatSingle answers a duplicate atomic from its saved result: it must not be executed twice.
// Among several results of one PSN the newest counts: the others are 2^24 PSNs old or more.
func (q *QP) repeatSingle(p *wire.Packet) {
	for _, s := range slices.Backward(q.resp.saved) {
		if s.kind != respRead && s.first == p.PSN {
			q.Count[roce.AtomicReplay]++
			q.oweAgain(response{kind: s.kind, dup: true, psn: p.PSN, msn: q.resp.msn, orig: s.orig},
				p.PSN)
			return
		}
	}
	q.Count[roce.AtomicForgotten]++
}

// pollResponses fills the burst with pending responses.
func (q *QP) pollResponses(now monotime.Time, b *roce.Burst) {
	r := &q.resp
	done := 0
	for done < len(r.out) && !b.Full() {
		o := &r.out[done]
		sent, before := false, b.Bytes()
		if r.rate != nil && o.kind >= respRead && r.rate.limit.Holds(now) {
			break
		}
		switch o.kind {
		case respAck:
			sent = q.sendAck(o, b)
		case respSack:
			sent = q.sendSack(b)
		case respAtomic:
			sent = q.sendAtomicAck(o, b)
		case respRead, respEmptyRead:
			var v mem.AccessError
			if o.away {
				sent, v = q.shared.send(q, o, b)
			} else {
				sent, v = q.sendReadResponse(o, b, nil)
			}
			if v != ib.VendorNone {
				code, event := wire.NAKRemoteAccess, ib.EventQPAccessErr
				if v == ib.VendorPeerGone {
					code, event = wire.NAKRemoteOperational, ib.EventQPFatal
				}
				if o.dup {
					// A peer that still waits for it gets a NAK. A copy that the network kept, of a
					// READ long done, must not end the queue pair.
					q.Count[roce.SentErrorNAK]++
					q.away.sent = q.away.sent || o.away
					*o = response{kind: respAck, psn: o.psn, syndrome: code, msn: o.msn}
					continue
				}
				q.Blame(v)
				q.failResponder(o.psn, code, event, done)
				continue
			}
		}
		if !sent {
			break
		}
		if r.rate != nil && o.kind >= respRead {
			q.sentResponse(now, b.Bytes()-before)
		}
		if o.kind != respRead || (o.left == 0 && o.begun) {
			q.away.sent = q.away.sent || o.away
			done++
		}
	}
	r.out = r.out[:copy(r.out, r.out[done:])]
}

// respond opens a response packet. op is RC's; XRC's has the same headers.
func (q *QP) respond(b *roce.Burst, op wire.Opcode, psn ib.PSN, payload int) bool {
	h := q.BTH(q.base+op, psn)
	h.Pad, h.Selective, h.AllRETH = uint8(-payload&3), true, true
	return b.Begin(q.Path, op.Info().HeaderBytes+payload+int(h.Pad)+wire.ICRCBytes, h)
}

func (q *QP) sendAck(o *response, b *roce.Burst) bool {
	if !q.respond(b, wire.RCAcknowledge, o.psn, 0) {
		return false
	}
	q.resp.delivered, q.resp.awaited = false, false
	if o.syndrome.Kind() == wire.KindACK && o.msn == q.resp.msn {
		o.syndrome = q.ackSyndrome() // it may have waited, and receives were posted since
	}
	b.AETH(wire.AETH{Syndrome: o.syndrome, MSN: o.msn})
	b.End()
	return true
}

func (q *QP) sendAtomicAck(o *response, b *roce.Burst) bool {
	if !q.respond(b, wire.RCAtomicAcknowledge, o.psn, 0) {
		return false
	}
	b.AETH(wire.AETH{Syndrome: q.ackSyndrome(), MSN: o.msn})
	b.AtomicAckETH(wire.AtomicAckETH{Orig: o.orig})
	b.End()
	return true
}

// sendReadResponse sends the next packet of a READ response, unless the burst
// cannot take it or the memory is gone. Its payload is copied: the memory
// belongs to an application that may write it meanwhile. away is a part of the
// data if they are another process's.
func (q *QP) sendReadResponse(o *response, b *roce.Burst, away []byte) (sent bool,
	v mem.AccessError) {
	n := int(min(o.left, uint32(b.Payload(q.MTU))))
	if away != nil {
		n = min(n, len(away))
	}
	op, aeth := readOpcode(!o.begun, int(o.left) == n)
	if b.Len() > 0 && op.Info().HeaderBytes+n+wire.ICRCBytes > b.SegmentBytes() {
		return false, ib.VendorNone
	}
	var s mem.Span
	if n > 0 && away == nil {
		pd, table, v := q.source(o.srq)
		if v != ib.VendorNone {
			return false, v
		}
		if s, v = table.Remote(pd, q.QPN, o.rkey, o.va, uint32(n),
			ib.AccessRemoteRead); v != ib.VendorNone {
			return false, v
		}
		defer s.Release()
	}
	if !q.respond(b, op, o.psn, n) {
		return false, ib.VendorNone
	}
	if aeth {
		b.AETH(wire.AETH{Syndrome: q.ackSyndrome(), MSN: o.msn})
	}
	packets := q.Packets(uint32(n))
	if away != nil {
		b.Copy(away[:n])
		q.away.took(n, packets)
	} else if n > 0 && !b.CopySpan(s, 0, n) {
		b.Abort()
		return false, ib.VendorFault
	}
	b.StandsFor(packets)
	b.End()
	o.psn, o.va, o.left, o.begun = o.psn.Add(packets), o.va+uint64(n), o.left-uint32(n), true
	return true, ib.VendorNone
}

// readOpcode returns the opcode of a READ response packet and whether it
// carries an AETH.
func readOpcode(first, last bool) (wire.Opcode, bool) {
	switch {
	case first && last:
		return wire.RCRDMAReadResponseOnly, true
	case first:
		return wire.RCRDMAReadResponseFirst, true
	case last:
		return wire.RCRDMAReadResponseLast, true
	}
	return wire.RCRDMAReadResponseMiddle, false
}
