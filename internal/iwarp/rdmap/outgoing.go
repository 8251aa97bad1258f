// SPDX-License-Identifier: BSD-2-Clause

package rdmap

import (
	"verbena/ib"
	"verbena/internal/iwarp/mpa"
	"verbena/internal/mem"
	"verbena/internal/monotime"
	"verbena/internal/qp"
	wire "verbena/internal/wire/iwarp"
)

// outgoing is the segment that Peek made and Commit has not taken.
type outgoing struct {
	open    bool
	source  source
	head    []byte // headers; in room
	payload mpa.Payload
	read    wire.ReadReq // a READ request of the send queue

	room  [wire.UntaggedBytes + wire.AtomicRequestBytes + wire.MaxTermBytes]byte
	spans []mem.Span
	// answered says that the last message was a response: requests and responses
	// take turns.
	answered bool
}

// source is the part of the queue pair that a segment comes from.
type source uint8

const (
	fromTerminate source = iota
	fromRTR
	fromResponse
	fromRequest
	fromNudge
)

func (o *outgoing) header(h wire.Header) { o.head = h.Append(o.head) }

// Peek returns the headers and the payload of the next segment, false if there
// is none now. The segment is taken with Commit, or put back with Drop.
func (q *QP) Peek(now monotime.Time) (head []byte, p *mpa.Payload, ok bool) {
	o := &q.out
	if !q.started || q.closing == Abort {
		return nil, nil, false
	}
	o.head, o.payload = o.room[:0], mpa.Payload{}
	switch {
	case q.resp.term == termDue && len(q.resp.out) > 0: // asked for before
		o.source = fromResponse
		ok = q.peekResponse(now)
	case q.resp.term == termDue:
		o.source, ok = fromTerminate, true
		q.peekTerminate()
	case q.resp.term != termNone:
	case q.State() != ib.QPRTS && q.State() != ib.QPSQD || q.closing != KeepOpen:
	case q.awaiting:
		q.runLocals(now)
	case q.req.rtrDue:
		o.source, ok = fromRTR, true
		q.peekRTR()
	case q.nudge.due && !q.midMessage():
		o.source, ok = fromNudge, true
		q.peekNudge()
	case q.rtrUnanswered(): // the answer shows that the peer reads: see nudge
	default:
		ok = q.peekMessage(now)
	}
	o.open = ok
	return o.head, &o.payload, ok
}

// peekMessage chooses between the peer's requests and the send queue.
func (q *QP) peekMessage(now monotime.Time) bool {
	o := &q.out
	responses := len(q.resp.out) > 0 && !q.midMessage()
	if responses && (q.resp.out[0].begun || !o.answered) {
		o.source = fromResponse
		return q.peekResponse(now)
	}
	if q.peekRequest(now) {
		o.source = fromRequest
		return true
	}
	if q.resp.term == termDue { // a work request failed
		o.source = fromTerminate
		o.head, o.payload = o.room[:0], mpa.Payload{}
		q.peekTerminate()
		return true
	}
	if responses && len(q.resp.out) > 0 {
		o.source = fromResponse
		return q.peekResponse(now)
	}
	return false
}

// Commit takes the segment of Peek, which is in the stream and ends at position
// at.
func (q *QP) Commit(now monotime.Time, at uint64) {
	o := &q.out
	o.open = false
	q.Count[SentSegments]++
	q.Count[SentBytes] += uint64(o.payload.Size)
	q.nudge.spoke(now)
	switch o.source {
	case fromNudge:
		q.commitNudge(now)
	case fromTerminate:
		q.resp.term = termSent
		q.Count[SentTerminate]++
	case fromRTR:
		q.commitRTR()
	case fromResponse:
		q.commitResponse(now)
	case fromRequest:
		q.commitRequest(at)
		o.answered = false
	}
}

// Drop puts the segment of Peek back; held says that its spans are still held.
func (q *QP) Drop(held bool) {
	q.out.open = false
	if held {
		qp.Release(q.out.payload.Spans)
	}
}

// DropFaulty is Drop of a segment whose memory is not mapped any more.
func (q *QP) DropFaulty(now monotime.Time) {
	q.Drop(true)
	switch q.out.source {
	case fromRequest:
		q.failWQE(now, q.SQ.AtAbs(q.req.cur), ib.WCLocProtErr, ib.VendorFault)
	case fromResponse:
		q.refuseResponse(now, ib.VendorFault)
	}
}
