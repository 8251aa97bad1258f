// SPDX-License-Identifier: BSD-2-Clause

package rdma

import (
	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/monotime"
	"verbena/internal/ntb/channel"
	"verbena/internal/qp"
	"verbena/internal/queue"
	wire "verbena/internal/wire/ntb"
)

// requester is the sending half.
//
//	send queue   [ head ........ cur ........ tail )
//	              oldest         sending      newest posted
//	              unfinished     now
type requester struct {
	cur uint64 // absolute index of the work request being sent
	off uint32 // bytes of it that are sent or asked for

	reads   int // pieces of READs and atomics outstanding
	retries uint8
	rnr     uint8

	blocked     bool // the work request at cur failed; it completes when it is the oldest
	starved     bool // there was no room in a window
	drainRaised bool

	spans []mem.Span
}

// refill gives the retry counters their attributes' values.
func (r *requester) refill(a *ib.QPAttr) { r.retries, r.rnr = a.RetryCnt, a.RNRRetry }

// States of a send work request, kept in SendWQE.State.
const (
	wqePosted uint8 = iota // not begun
	wqeBegun               // some of it is in the ring
	wqeSent                // all of it is
	wqeDone                // waits for its turn
	wqeFailed              // completes with the status in Sent when it is the oldest
)

const (
	maxPiece  = 64 << 10 // bytes of a piece
	maxBatch  = 16       // WQEs of a batch, as in the original
	directMax = 1 << 20  // bytes of a piece that goes straight to its place
)

func isRead(o ib.WROpcode) bool { return o == ib.WRRDMARead || isAtomic(o) }

func isAtomic(o ib.WROpcode) bool {
	return o == ib.WRAtomicCmpAndSwp || o == ib.WRAtomicFetchAndAdd
}

// wqeOps maps the opcodes that go over the link; 0 is one that does not.
var wqeOps = [256]wire.WQEOp{
	ib.WRSend: wire.WQESend, ib.WRSendWithImm: wire.WQESendImm, ib.WRSendWithInv: wire.WQESendInv,
	ib.WRRDMAWrite: wire.WQEWrite, ib.WRRDMAWriteWithImm: wire.WQEWriteImm,
	ib.WRRDMARead: wire.WQERead, ib.WRAtomicCmpAndSwp: wire.WQECmpSwap,
	ib.WRAtomicFetchAndAdd: wire.WQEFetchAdd,
}

// output fills a batch with pieces of the send queue: their bytes, their WQEs
// in one run, the marks that show them, the doorbell and the signal.
func (q *QP) output(now monotime.Time, b *channel.Batch) bool {
	if q.far != nil && q.far.silent {
		q.ringFar(b)
		q.node.kick(q)
		return true
	}
	if !q.sends() || q.retryAt != monotime.Never { // it waits
		return false
	}
	n, f, first := q.node, q.far, q.far.posted
	n.wqes = n.wqes[:0]
	for f.posted.Since(first) < maxBatch && q.next(now, b) {
	}
	if f = q.far; f == nil || f.posted == first { // a failed one may have ended the queue pair
		return false
	}
	for i := first; i != f.posted; i++ {
		w := n.wqes[wire.WQEBytes*i.Since(first):][:wire.WQEBytes]
		clear(w[wire.MarkAt:wire.LineBytes])
		if i+1 == f.posted {
			w = w[:n.used] // a line less for both to fetch
		}
		b.Append(f.slotAt(i), func(b []byte) []byte { return append(b, w...) })
	}
	for i := first; i != f.posted; i++ {
		b.Word8(f.slotAt(i)+wire.MarkAt, uint64(wire.NewPosition(f.generation, i)))
	}
	q.ringFar(b)
	n.last = source{qp: q}
	if f.posted.Since(first) == maxBatch {
		n.kick(q)
	}
	return true
}

// ringFar rings the doorbell for new WQEs.
func (q *QP) ringFar(b *channel.Batch) {
	n, f := q.node, q.far
	f.silent = false
	n.ring(b, f.farBell, &f.rung)
	n.ch.Ring(b)
}

// slotAt returns where in the peer's window a WQE is.
func (f *far) slotAt(i wire.Index) uint64 { return f.wqesAt + wire.WQEBytes*uint64(i.Slot(f.cap)) }

// next puts one more piece into the batch, executing local operations on the
// way; false if there is none for now.
func (q *QP) next(now monotime.Time, b *channel.Batch) bool {
	r := &q.req
	for r.cur < q.SQ.Tail() && !r.blocked && q.far != nil {
		w := q.SQ.AtAbs(r.cur)
		if w.State == wqeDone { // a local operation, from before the ring was taken up again
			r.cur++
			continue
		}
		if w.State == wqePosted {
			if q.State() == ib.QPSQD || w.Flags&ib.SendFence != 0 && r.reads > 0 {
				return false
			}
			if qp.IsLocal(w.Opcode) {
				if !q.runLocal(w) {
					return false
				}
				continue
			}
			if s, v := q.checkRequest(w); s != ib.WCSuccess {
				q.failWQE(w, s, v)
				return false
			}
		}
		return q.makePiece(w, b)
	}
	return false
}

// checkRequest finds the error of a work request before any of it is sent.
func (q *QP) checkRequest(w *queue.SendWQE) (ib.WCStatus, ib.VendorErr) {
	if wqeOps[w.Opcode] == 0 {
		return ib.WCLocQPOpErr, ib.VendorOpcode
	}
	need := ib.Access(0)
	if isRead(w.Opcode) {
		need = ib.AccessLocalWrite
		if q.Attr.MaxRdAtomic == 0 {
			return ib.WCLocQPOpErr, ib.VendorDepth
		}
		if qp.BadLength(w) {
			return ib.WCLocLenErr, ib.VendorLength
		}
	} else if w.Flags&ib.SendInline != 0 || w.Length <= maxPiece { // of one piece carry finds it
		return ib.WCSuccess, ib.VendorNone
	}
	for i := range w.SGE {
		if w.SGE[i].Length == 0 {
			continue
		}
		s, v := q.Mem.Local(q.PD, w.SGE[i], need)
		if v != ib.VendorNone {
			return ib.WCLocProtErr, v
		}
		s.Release()
	}
	return ib.WCSuccess, ib.VendorNone
}

// makePiece puts the next piece of w into the batch, if there is room for it.
func (q *QP) makePiece(w *queue.SendWQE, b *channel.Batch) bool {
	r, f, n := &q.req, q.far, q.node
	if f.posted.Since(f.done) == f.cap || isRead(w.Opcode) && r.reads >= int(q.Attr.MaxRdAtomic) {
		return false // a completion will kick
	}
	e := wire.WQE{Op: wqeOps[w.Opcode], Mark: wire.NewPosition(f.generation, f.posted),
		Length: w.Length, Offset: r.off, Imm: w.Imm, Key: w.RKey, Addr: w.RemoteAddr}
	p := piece{wqe: r.cur, off: r.off, read: isRead(w.Opcode)}
	switch {
	case isAtomic(w.Opcode):
		e.Bytes, e.CompareAdd, e.Swap = 8, w.CompareAdd, w.Swap
	case w.Opcode == ib.WRRDMARead:
		if e.Bytes = min(maxPiece, w.Length-r.off); e.Bytes > 0 && !q.takePlace(&e, &p) {
			return false
		}
	default:
		if w.Opcode == ib.WRSendWithInv {
			e.Imm = uint32(w.InvalidateKey)
		}
		if w.Flags&ib.SendSolicited != 0 {
			e.Flags |= wire.WQESolicited
		}
		if !q.carry(w, &e, &p, b) {
			return false
		}
	}
	p.n = e.Bytes
	if e.Offset == 0 {
		e.Flags |= wire.WQEFirst
	}
	if p.last = e.Bytes == e.Length-e.Offset; p.last {
		e.Flags |= wire.WQELast
	}
	q.tellDone(&e)
	n.wqes, n.used = e.Append(n.wqes), e.Used()
	q.Count[SentPieces]++
	if p.read {
		r.reads++
	}
	if e.Op != wire.WQERead && e.Flags&wire.WQEPlaced == 0 {
		p.loose = true
		f.loose++
	}
	f.pieces[f.posted.Slot(f.cap)] = p
	f.posted++
	w.State = wqeBegun
	if r.off += p.n; p.last {
		w.State = wqeSent
		r.cur, r.off = r.cur+1, 0
		q.Count[SentMessages]++
	}
	return true
}

// takePlace finds room in our window for a piece of a READ.
func (q *QP) takePlace(e *wire.WQE, p *piece) (ok bool) {
	p.room, p.place = uint64(e.Bytes), true
	if p.at, ok = q.node.own.pool.take(p.room); !ok {
		q.req.starved = true
		return false
	}
	e.DataAt = p.at
	return true
}

// carry brings the bytes of a piece of a SEND or WRITE over: in the WQE, to
// their place, or to the arena.
func (q *QP) carry(w *queue.SendWQE, e *wire.WQE, p *piece, b *channel.Batch) bool {
	r, n := &q.req, q.node
	left := w.Length - r.off
	var to uint64
	// Nothing of a WRITE is seen before all earlier posts are there.
	if e.Op.IsWrite() && q.far.loose == 0 && left > 0 {
		if at, run := q.far.direct(w.RKey, w.RemoteAddr+uint64(r.off), left); run > 0 {
			e.Bytes, e.Flags, to = min(run, directMax), e.Flags|wire.WQEPlaced, at
			q.Count[SentPlaced] += uint64(e.Bytes)
		}
	}
	if e.Bytes == 0 && left <= wire.MaxInline {
		e.Bytes = left
		q.Count[SentInline] += uint64(left)
		return q.copyOut(w, e.Inline[:left])
	}
	if e.Bytes == 0 {
		e.Bytes = min(maxPiece, left)
		p.room = uint64(e.Bytes)
		var ok bool
		if p.at, ok = n.arena.take(p.room); !ok {
			p.room, r.starved = 0, true
			return false
		}
		e.DataAt, to = p.at, p.at
		q.Count[SentBytes] += uint64(e.Bytes)
	}
	if w.Flags&ib.SendInline != 0 {
		b.Copy(to, w.Inline[r.off:r.off+e.Bytes])
		return true
	}
	spans, s, v := q.Gather(r.spans[:0], w, int(r.off), int(e.Bytes))
	if s != ib.WCSuccess {
		q.far.release(p)
		q.failWQE(w, s, v)
		return false
	}
	b.Gather(to, spans)
	clear(spans)
	r.spans = spans[:0]
	return true
}

// copyOut copies the last bytes of a message.
func (q *QP) copyOut(w *queue.SendWQE, dst []byte) bool {
	r := &q.req
	if w.Flags&ib.SendInline != 0 {
		copy(dst, w.Inline[r.off:])
		return true
	}
	spans, s, v := q.Gather(r.spans[:0], w, int(r.off), len(dst))
	if s != ib.WCSuccess {
		q.failWQE(w, s, v)
		return false
	}
	ok := true
	for i := range spans {
		ok = ok && spans[i].CopyOut(0, dst[:spans[i].Len()])
		dst = dst[spans[i].Len():]
		spans[i].Release()
	}
	clear(spans)
	r.spans = spans[:0]
	if !ok {
		q.failWQE(w, ib.WCLocProtErr, ib.VendorFault)
	}
	return ok
}

// runLocal runs LOCAL_INV, REG_MR and BIND_MW, reporting whether the queue may
// go on. LOCAL_INV waits until everything before it has completed.
func (q *QP) runLocal(w *queue.SendWQE) bool {
	if w.Opcode == ib.WRLocalInv && q.req.cur != q.SQ.Head() {
		return false
	}
	if s, v := q.ExecuteLocal(w); s != ib.WCSuccess {
		q.failWQE(w, s, v)
		return false
	}
	w.State = wqeDone
	q.req.cur++
	q.retire()
	return true
}

// failWQE marks a work request that cannot be sent. It completes with its error
// once everything before it has completed.
func (q *QP) failWQE(w *queue.SendWQE, s ib.WCStatus, v ib.VendorErr) {
	w.State = wqeFailed
	w.Sent = uint32(s)<<16 | uint32(v)
	q.req.blocked = true
	q.retire()
}

// retire completes work requests from the oldest on.
func (q *QP) retire() {
	r := &q.req
	for q.SQ.Len() > 0 {
		w := q.SQ.At(0)
		switch w.State {
		case wqeDone:
		case wqeFailed:
			if r.off > 0 && q.far != nil && q.far.posted != q.far.done {
				return // of its first pieces the fate is not known yet
			}
			q.CompleteSend(w, ib.WCStatus(w.Sent>>16), ib.VendorErr(w.Sent&0xffff))
			q.SQ.PopFront()
			q.enterError()
			return
		default:
			q.checkDrained()
			return
		}
		q.CompleteSend(w, ib.WCSuccess, ib.VendorNone)
		q.SQ.PopFront()
	}
	q.checkDrained()
}

// drained reports whether nothing that was begun is unfinished.
func (q *QP) drained() bool { return q.SQ.Len() == 0 || q.SQ.At(0).State == wqePosted }

// checkDrained raises the event, if the application asked for it, that a queue in SQD has nothing
// more outstanding.
func (q *QP) checkDrained() {
	if q.State() == ib.QPSQD && !q.req.drainRaised && q.drained() {
		q.req.drainRaised = true
		if q.Attr.EnSQDAsyncNotify {
			q.Raise(ib.EventSQDrained)
			q.tell()
		}
	}
}
