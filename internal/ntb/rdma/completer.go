// SPDX-License-Identifier: BSD-2-Clause

package rdma

import (
	"encoding/binary"

	"verbena/ib"
	"verbena/internal/monotime"
	wire "verbena/internal/wire/ntb"
	"verbena/internal/wire/roce"
)

// takeCompletions takes the answers that have come.
func (q *QP) takeCompletions(now monotime.Time) {
	f, n := q.far, q.node
	if f == nil {
		return // the queue pair has left; its far half does not know yet
	}
	w := n.ch.Own()
	pos := wire.Position(w.Load8(f.wordsAt + wire.DoneWord)) // before From: a later From is no harm
	if pos.Generation() != f.generation {
		return // of before the ring was taken up again
	}
	start := wire.Position(w.Load8(f.wordsAt + wire.FromWord))
	end, from := pos.Index(), start.Index()
	if behind := f.done.Since(end); behind > 0 && behind <= f.cap {
		return // the peer's WQEs have acknowledged more meanwhile
	}
	if end.Since(f.done) > f.posted.Since(f.done) {
		n.violated(now)
		return
	}
	if ahead := from.Since(end); start.Generation() != pos.Generation() ||
		ahead > 0 && ahead <= f.cap {
		return // of an answer whose doorbell is still to come
	}
	ok := true
	if skip := from.Since(f.done); skip > 0 && skip <= end.Since(f.done) {
		ok = q.takeDone(from)
	}
	for ok && q.far == f && f.done != end && pos.Generation() == f.generation {
		var c wire.CQE
		if c, ok = f.cqe(); ok {
			q.takeCQE(now, &c)
		}
	}
	if !ok {
		q.Count[BadCQE]++
		q.Blame(ib.VendorOpcode)
		q.Raise(ib.EventQPFatal)
		q.failOldest(ib.WCBadRespErr, ib.VendorOpcode)
		return
	}
	n.kick(q)
	n.kickAll()
}

// cqe returns the CQE of the oldest piece outstanding, if it is there.
func (f *far) cqe() (wire.CQE, bool) {
	var room [wire.CQEBytes]byte
	f.qp.node.ch.Own().CopyOut(f.cqesAt+wire.CQEBytes*uint64(f.done.Slot(f.cap)), room[:])
	c, _, ok := wire.ParseCQE(room[:])
	return c, ok && c.Index == f.done
}

// takeDone notes that all requests before one have gone well, as the peer's queue pair or one of
// its WQEs says. Only atomics have CQEs then, for their results; false if one of them has not.
func (q *QP) takeDone(end wire.Index) bool {
	f := q.far
	if f == nil {
		return true
	}
	if f.done == end || end.Since(f.done) > f.posted.Since(f.done) {
		return true
	}
	q.req.refill(&q.Attr)
	for q.far == f && f.done != end {
		p := &f.pieces[f.done.Slot(f.cap)]
		var c wire.CQE
		if p.read && isAtomic(q.SQ.AtAbs(p.wqe).Opcode) {
			var ok bool
			if c, ok = f.cqe(); !ok {
				return false
			}
		}
		room := p.room > 0
		if q.finishPiece(p, &c); room {
			q.node.kickAll()
		}
	}
	if q.far == f && q.req.cur < q.SQ.Tail() {
		q.node.kick(q)
	}
	return true
}

// takeCQE takes the answer to the oldest piece outstanding.
func (q *QP) takeCQE(now monotime.Time, c *wire.CQE) {
	f, r := q.far, &q.req
	p := &f.pieces[f.done.Slot(f.cap)]
	switch c.Status {
	case wire.StatusDone:
		r.refill(&q.Attr)
		q.finishPiece(p, c)
	case wire.StatusRNR:
		q.Count[RcvdRNR]++
		if r.rnr == 0 {
			q.failOldest(ib.WCRNRRetryExcErr, ib.VendorRNR)
			return
		}
		if r.rnr != 7 { // Spec: IBTA vol. 1, 9.7.5.2.8: 7 is for ever
			r.rnr--
		}
		q.goBack(now.Add(roce.RNRTimer(c.Timer)))
	case wire.StatusNotReady:
		q.Count[NotReady]++
		if q.Attr.Timeout == 0 { // Spec: IBTA vol. 1, 9.7.6.1.3: no time-out
			q.goBack(now.Add(announcePause))
			return
		}
		if r.retries == 0 {
			q.failOldest(ib.WCRetryExcErr, ib.VendorTimeout)
			return
		}
		r.retries--
		q.goBack(now.Add(ackTimeout(q.Attr.Timeout)))
	case wire.StatusInvalid:
		q.failOldest(ib.WCRemInvReqErr, ib.VendorNAKInvalid)
	case wire.StatusAccess:
		q.failOldest(ib.WCRemAccessErr, ib.VendorNAKAccess)
	default:
		q.failOldest(ib.WCRemOpErr, ib.VendorNAKOp)
	}
}

// ackTimeout is the local ACK time-out of an attribute: 4.096 µs × 2^code.
func ackTimeout(code uint8) monotime.Duration {
	return 4096 * monotime.Nanosecond << min(code, 31)
}

// finishPiece takes a piece's result, and completes its work request with the last.
func (q *QP) finishPiece(p *piece, c *wire.CQE) {
	f, r := q.far, &q.req
	w := q.SQ.AtAbs(p.wqe)
	if p.read {
		r.reads--
		if s, v := q.bring(p, c); s != ib.WCSuccess {
			q.failOldest(s, v)
			return
		}
	}
	if p.loose {
		f.loose--
	}
	f.release(p)
	f.done++
	if p.last {
		w.State = wqeDone
	}
	q.retire()
}

// bring stores the result of a READ or an atomic.
func (q *QP) bring(p *piece, c *wire.CQE) (ib.WCStatus, ib.VendorErr) {
	w := q.SQ.AtAbs(p.wqe)
	if isAtomic(w.Opcode) {
		var word [8]byte
		binary.NativeEndian.PutUint64(word[:], c.Orig)
		return q.Scatter(w.SGE, 0, word[:])
	}
	data, _ := q.node.ch.Own().Bytes(p.at, uint64(p.n))
	return q.Scatter(w.SGE, int(p.off), data)
}

// failOldest ends the queue pair. The work request of the oldest piece
// outstanding, which is the oldest that is not done, gets the status.
func (q *QP) failOldest(s ib.WCStatus, v ib.VendorErr) {
	if q.SQ.Len() > 0 {
		q.CompleteSend(q.SQ.At(0), s, v)
		q.SQ.PopFront()
	}
	q.enterError()
}

// goBack takes the ring up again from its oldest piece on, at a later time. Its contents are void:
// the responder has stopped there and looks at nothing more of this generation.
func (q *QP) goBack(at monotime.Time) {
	f, r := q.far, &q.req
	first := f.pieces[f.done.Slot(f.cap)]
	for i := f.done; i != f.posted; i++ {
		p := &f.pieces[i.Slot(f.cap)]
		if p.read {
			r.reads--
		}
		f.release(p)
	}
	f.posted, f.loose = f.done, 0
	f.generation++
	for i := first.wqe; i < q.SQ.Tail(); i++ {
		if w := q.SQ.AtAbs(i); w.State != wqeDone {
			w.State = wqePosted
		}
	}
	if x := q.server; x != nil && x.told != x.taken { // its acknowledgement is void, too
		x.owes = true
		x.kick()
	}
	r.cur, r.off, r.blocked = first.wqe, first.off, false
	if r.off > 0 {
		q.SQ.AtAbs(r.cur).State = wqeBegun
	}
	q.retry(at)
}
