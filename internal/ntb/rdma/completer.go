package rdma

import (
	"encoding/binary"

	"verbena/ib"
	"verbena/internal/monotime"
	wire "verbena/internal/wire/ntb"
	"verbena/internal/wire/roce"
)

// takeCompletions takes the CQEs that have come.
func (q *QP) takeCompletions(now monotime.Time) {
	f, n := q.far, q.node
	if f == nil {
		return // the queue pair has left; its far half does not know yet
	}
	w := n.ch.Own()
	pos := wire.Position(w.Load8(f.doneAt))
	if pos.Generation() != f.generation {
		return // of before the ring was taken up again
	}
	end := pos.Index()
	if end.Since(f.done) > f.posted.Since(f.done) {
		n.violated(now)
		return
	}
	for f.done != end && q.far == f && pos.Generation() == f.generation {
		var room [wire.CQEBytes]byte
		w.CopyOut(f.cqesAt+wire.CQEBytes*uint64(f.done.Slot(f.cap)), room[:])
		c, _, ok := wire.ParseCQE(room[:])
		if !ok || c.Index != f.done {
			q.Count[BadCQE]++
			q.Raise(ib.EventQPFatal)
			q.failOldest(ib.WCBadRespErr, ib.VendorOpcode)
			return
		}
		q.takeCQE(now, &c)
	}
	n.kick(q)
	n.kickAll()
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

// finishPiece takes what a piece brought, and completes its work request with
// the last.
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

// bring stores what a READ or an atomic has brought.
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

// goBack takes the ring up again from its oldest piece on, at a later time.
// What is in it is void: the responder has stopped there and looks at nothing
// more of this generation.
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
	r.cur, r.off, r.blocked = first.wqe, first.off, false
	if r.off > 0 {
		q.SQ.AtAbs(r.cur).State = wqeBegun
	}
	q.retry(at)
}
