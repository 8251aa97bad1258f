// SPDX-License-Identifier: BSD-2-Clause

package rdma

import (
	"verbena/ib"
	"verbena/internal/qp"
	"verbena/internal/queue"
	wire "verbena/internal/wire/ntb"
)

// MaxShort is the largest number of bytes of a SEND that is one line.
const MaxShort = wire.MaxShortSend

// Send writes a SEND into the peer's window at once, and then fills its place in the send queue. It
// returns false if earlier work requests wait: the caller posts it as others then. The caller calls
// Quick after the last of a list.
func (q *QP) Send(s *queue.Short) bool {
	if s.Bytes > MaxShort || !wqeOps[s.Op].IsSend() || q.req.cur != q.SQ.Tail() ||
		q.SQ.Len() == q.SQ.Cap() || !q.near() {
		return false
	}
	e := q.line(s.Op, s.Flags, uint32(s.Bytes))
	if e == nil {
		return false
	}
	copy(e.Inline[:], s.Data[:s.Bytes])
	e.Imm = s.Imm
	if s.Op == ib.WRSendWithInv {
		e.Imm = uint32(s.Key)
	}
	if !q.putLine(e) {
		return false
	}
	w, _ := q.SQ.Reserve()
	w.WRID, w.Opcode, w.Flags, w.Imm, w.InvalidateKey = s.ID, s.Op, s.Flags, s.Imm, s.Key
	w.Length = uint32(s.Bytes)
	if s.Flags&ib.SendInline != 0 {
		w.Inline = append(w.Inline, s.Data[:s.Bytes]...)
	} else {
		w.SGE = append(w.SGE, s.Local)
	}
	q.SQ.Commit()
	q.lineSent(w)
	return true
}

// sendLine sends a message that is short enough for one line, and in the send queue.
func (q *QP) sendLine(w *queue.SendWQE) bool {
	if w.Length > MaxShort {
		return false
	}
	e := q.line(w.Opcode, w.Flags, w.Length)
	if e == nil {
		return false
	}
	if e.Imm = w.Imm; w.Opcode == ib.WRSendWithInv {
		e.Imm = uint32(w.InvalidateKey)
	}
	if w.Flags&ib.SendInline != 0 {
		copy(e.Inline[:], w.Inline)
	} else if !q.readShort(w, e.Inline[:w.Length]) {
		return false
	}
	if !q.putLine(e) {
		return false
	}
	q.lineSent(w)
	return true
}

// line begins the line of a SEND of n bytes; nil if there may be none now.
func (q *QP) line(op ib.WROpcode, flags ib.SendFlags, n uint32) *wire.WQE {
	f, e := q.far, &q.node.wqe
	if f.posted.Since(f.done) == f.cap || flags&ib.SendFence != 0 && q.req.reads > 0 {
		return nil
	}
	e.Op, e.Flags = wqeOps[op], wire.WQEFirst|wire.WQELast
	e.Mark = wire.NewPosition(f.generation, f.posted)
	e.Length, e.Bytes, e.Offset, e.Key = n, n, 0, 0
	if flags&ib.SendSolicited != 0 {
		e.Flags |= wire.WQESolicited
	}
	clear(e.Inline[:MaxShort]) // of another queue pair, maybe
	return e
}

// putLine writes it.
func (q *QP) putLine(e *wire.WQE) bool {
	n, f := q.node, q.far
	q.tellDone(e)
	e.PutLine(&n.line)
	ok := n.near.PutLine(f.slotAt(f.posted), &n.line)
	f.fresh = f.fresh || ok
	return ok
}

// lineSent notes that the line of the work request at cur is there.
func (q *QP) lineSent(w *queue.SendWQE) {
	f, r := q.far, &q.req
	f.pieces[f.posted.Slot(f.cap)] = piece{wqe: r.cur, n: w.Length, loose: true, last: true}
	f.posted++
	f.loose++
	w.State = wqeSent
	r.cur++
	q.Count[SentPieces]++
	q.Count[SentMessages]++
	q.Count[SentInline] += uint64(w.Length)
}

// readShort copies w's data; false if they cannot be read.
func (q *QP) readShort(w *queue.SendWQE, dst []byte) bool {
	spans, s, _ := q.Gather(q.req.spans[:0], w, 0, len(dst))
	if s != ib.WCSuccess {
		return false
	}
	ok := true
	for i := range spans {
		k := spans[i].Len()
		ok = ok && spans[i].CopyOut(0, dst[:k])
		dst = dst[k:]
	}
	qp.Release(spans)
	clear(spans)
	q.req.spans = spans[:0]
	return ok
}

// tellDone makes a WQE acknowledge the requests of the other way. Each does: the word of those
// before it may be void.
func (q *QP) tellDone(e *wire.WQE) {
	if r := q.server; r != nil && r.stopped != dead {
		e.Flags |= wire.WQEDone
		e.Done, r.answered = r.taken, r.taken
	}
}

// toRing reports whether the peer needs a doorbell to see new WQEs.
func (f *far) toRing() bool {
	return f.qp.node.ch.Own().Load4(f.wordsAt+wire.WatchedWord) == 0
}
