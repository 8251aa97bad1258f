// SPDX-License-Identifier: BSD-2-Clause

package rdmap

import (
	"verbena/ib"
	"verbena/internal/monotime"
	wire "verbena/internal/wire/iwarp"
)

// termState is the progress of our Terminate.
type termState uint8

const (
	termNone termState = iota
	termDue
	termSent
	termRcvd // the peer's came: none of ours follows
)

// terminate ends the stream with a Terminate that says why; with headers, those
// of the segment that arrived last.
//
// Spec: RFC 5040, 4.8 (Terminate header) and 7 (error handling).
func (q *QP) terminate(now monotime.Time, e wire.TermError, headers bool, event ib.EventType) {
	if q.resp.term != termNone || !q.started {
		q.fail(now, event, Shut)
		return
	}
	m := wire.TermMsg{TermError: e}
	if headers {
		m.HasLength, m.SegmentBytes = true, uint16(q.rx.length)
		m.HasDDP, m.DDP = true, q.rx.h
		// Spec: RFC 5040, 4.8: R with errors of a READ request that RDMAP found.
		if m.HasRead = e.Layer == wire.LayerRDMAP && q.rx.h.Opcode == wire.ReadRequest &&
			q.rx.h.QN == wire.QNRequest; m.HasRead {
			m.Read = q.rx.read
		}
	}
	q.resp.term, q.resp.termMsg = termDue, m
	// Earlier requests are answered before: else the peer could not know which request failed.
	owed := len(q.resp.out)
	q.fail(now, event, Shut)
	if headers && len(q.resp.out) == 0 {
		q.resp.out = q.resp.out[:owed]
	}
}

// peekTerminate makes the Terminate.
func (q *QP) peekTerminate() {
	o := &q.out
	o.header(wire.Header{Control: wire.NewControl(wire.Terminate, true),
		QN: wire.QNTerminate, MSN: 1})
	o.head = q.resp.termMsg.Append(o.head)
}

// handleTerminate takes the peer's last word. The work request that it names
// completes with it; the others are flushed.
func (q *QP) handleTerminate(now monotime.Time, body []byte) {
	q.Count[RcvdTerminate]++
	q.resp.term = termRcvd
	m, _, ok := wire.ParseTermMsg(body)
	if !ok {
		q.Count[MalformedSegment]++
		q.fail(now, ib.EventQPFatal, Shut)
		return
	}
	if m.Swapped {
		q.Count[SwappedTerminate]++
	}
	q.blame(&m)
	q.fail(now, ib.EventQPFatal, Shut)
}

// blame completes the request that a Terminate names, if it is not complete already: a READ or
// atomic by its number, or a SEND or WRITE that the socket has not taken all of.
func (q *QP) blame(m *wire.TermMsg) {
	s, v := statusOf(m.TermError)
	q.Blame(v)
	if !m.HasDDP {
		return
	}
	r := &q.req
	if !m.DDP.Tagged && m.DDP.QN == wire.QNRequest {
		for i := range r.reads {
			if e := &r.reads[i]; e.idx != noWR && e.isNamed(m) {
				q.completeRead(e.idx, s, v)
				return
			}
		}
		return
	}
	if q.SQ.Len() > 0 && q.SQ.Head() <= r.cur && q.names(m) {
		q.flushUpTo(q.SQ.Head(), s, v)
	}
}

// isNamed reports whether a Terminate is about a READ or atomic. siw writes the
// length where the number should be: there the READ's own header tells.
func (e *readRequest) isNamed(m *wire.TermMsg) bool {
	if m.Swapped {
		return m.HasRead && m.Read.SinkSTag == e.sink && m.Read.SinkTO == e.start && !e.atomic
	}
	return m.DDP.MSN == e.msn
}

// names reports whether a Terminate is about the oldest work request.
func (q *QP) names(m *wire.TermMsg) bool {
	w := q.SQ.At(0)
	switch {
	case w.State != wqeBegun && w.State != wqeSent:
		return false
	case m.DDP.Tagged:
		return w.Opcode == ib.WRRDMAWrite && m.DDP.STag == w.RKey &&
			m.DDP.TO-w.RemoteAddr < uint64(w.Length)
	}
	return m.DDP.QN == wire.QNSend && (w.Opcode == ib.WRSend || w.Opcode == ib.WRSendWithInv) &&
		m.DDP.MSN == q.oldestSendMSN()
}

// oldestSendMSN returns the number of the oldest SEND in the queue that has one.
func (q *QP) oldestSendMSN() uint32 {
	msn := q.req.sendMSN
	for i := q.SQ.Head(); i < q.req.cur; i++ {
		switch q.SQ.AtAbs(i).Opcode {
		case ib.WRSend, ib.WRSendWithInv, ib.WRRDMAWriteWithImm:
			msn--
		}
	}
	return msn
}

// completeRead completes a READ or atomic with an error. Older requests are flushed before it:
// completions keep their order.
func (q *QP) completeRead(idx uint64, s ib.WCStatus, v ib.VendorErr) { q.flushUpTo(idx, s, v) }

// completeOldestRead completes the oldest READ or atomic with an error.
func (q *QP) completeOldestRead(s ib.WCStatus, v ib.VendorErr) {
	if r := &q.req; len(r.reads) > 0 && r.reads[0].idx != noWR {
		q.completeRead(r.reads[0].idx, s, v)
	}
}

func (q *QP) flushUpTo(idx uint64, s ib.WCStatus, v ib.VendorErr) {
	q.letGo()
	for q.SQ.Len() > 0 && q.SQ.Head() <= idx {
		if q.SQ.Head() == idx {
			q.CompleteSend(q.SQ.At(0), s, v)
		} else {
			q.CompleteSend(q.SQ.At(0), ib.WCWRFlushErr, ib.VendorQPState)
		}
		q.SQ.PopFront()
	}
}

// causeOf returns the reason for which a request is refused with a Terminate of this end.
func causeOf(e wire.TermError) ib.VendorErr {
	switch e {
	case wire.RDMAPInvalidSTag, wire.DDPInvalidSTag:
		return ib.VendorKey
	case wire.RDMAPNotAssociated, wire.DDPNotAssociated:
		return ib.VendorPD
	case wire.RDMAPBounds, wire.RDMAPTOWrap, wire.DDPBounds, wire.DDPTOWrap:
		return ib.VendorBounds
	case wire.RDMAPAccess:
		return ib.VendorAccess
	case wire.RDMAPCannotInvalidate:
		return ib.VendorBound
	case wire.DDPNoBuffer:
		return ib.VendorRNR
	case wire.DDPTooLong, wire.MPAMarkerMismatch:
		return ib.VendorLength
	}
	return ib.VendorOpcode
}

// statusOf is the completion status that a Terminate means.
func statusOf(e wire.TermError) (ib.WCStatus, ib.VendorErr) {
	switch e {
	case wire.RDMAPInvalidSTag, wire.RDMAPBounds, wire.RDMAPAccess, wire.RDMAPNotAssociated,
		wire.RDMAPTOWrap, wire.RDMAPCannotInvalidate,
		wire.DDPInvalidSTag, wire.DDPBounds, wire.DDPNotAssociated, wire.DDPTOWrap:
		return ib.WCRemAccessErr, ib.VendorNAKAccess
	case wire.RDMAPVersionInvalid, wire.RDMAPUnexpectedOpcode, wire.DDPTaggedVersionInvalid,
		wire.DDPUntaggedVersionInvalid,
		wire.DDPInvalidQN, wire.DDPInvalidMSN, wire.DDPInvalidMO, wire.DDPTooLong:
		return ib.WCRemInvReqErr, ib.VendorNAKInvalid
	}
	return ib.WCRemOpErr, ib.VendorNAKOp
}
