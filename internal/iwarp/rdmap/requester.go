// SPDX-License-Identifier: BSD-2-Clause

package rdmap

import (
	"encoding/binary"
	"math/bits"

	"verbena/ib"
	"verbena/internal/iwarp/mpa"
	"verbena/internal/monotime"
	"verbena/internal/qp"
	"verbena/internal/queue"
	wire "verbena/internal/wire/iwarp"
)

// requester is the sending half.
//
//	send queue   [ head ........ cur ........ tail )
//	              oldest         sending      newest posted
//	              unfinished     now
type requester struct {
	cur    uint64 // absolute index of the work request being sent
	off    uint32 // bytes of it that are sent or asked for
	sge    int    // READ: the element to be asked for next
	immDue bool   // WRITE with immediate: its immediate data is next

	sendMSN    uint32 // of the next message on the queue of SENDs
	requestMSN uint32 // … of requests
	atomicID   uint32

	reads   []readRequest // READs and atomics outstanding, oldest first
	ends    []uint64      // where in the stream a work request ends, by index modulo depth
	written uint64        // position up to which the stream is out

	blocked     bool // the work request at cur failed; it completes when it is the oldest
	rtrDue      bool
	drainRaised bool
}

// readRequest is a READ or atomic that was sent and not yet answered.
type readRequest struct {
	idx   uint64 // of its work request; noWR for the ready-to-receive
	msn   uint32
	last  bool // of the work request's
	sink  ib.RKey
	start uint64 // where its first byte goes
	to    uint64 // where the next byte goes
	left  uint32
	began bool
	// atomics
	atomic bool
	id     uint32
}

const noWR = ^uint64(0)

// States of a send work request, kept in SendWQE.State.
const (
	wqePosted  uint8 = iota // not begun
	wqeBegun                // some of it may be sent
	wqeSent                 // all of it is in the stream; done when that is written
	wqeWaiting              // READ, atomic: waits for data
	wqeDone                 // waits for its turn
	wqeFailed               // completes with the status in Sent when it is the oldest
)

func isRead(o ib.WROpcode) bool {
	return o == ib.WRRDMARead || o == ib.WRAtomicCmpAndSwp || o == ib.WRAtomicFetchAndAdd
}

// peekRTR makes the ready-to-receive message, the first of all.
//
// Spec: RFC 6581, 9.1.
func (q *QP) peekRTR() {
	o := &q.out
	switch q.set.RTR {
	case mpa.RTREmpty:
	case mpa.RTRWrite:
		o.header(wire.Header{Control: wire.NewControl(wire.RDMAWrite, true), STag: zeroSTag})
	case mpa.RTRRead:
		o.header(q.requestHeader(wire.ReadRequest))
		o.head = wire.ReadReq{SinkSTag: zeroSTag, SrcSTag: zeroSTag}.Append(o.head)
	}
}

func (q *QP) requestHeader(op wire.Opcode) wire.Header {
	return wire.Header{Control: wire.NewControl(op, true), QN: wire.QNRequest,
		MSN: q.req.requestMSN}
}

func (q *QP) commitRTR() {
	r := &q.req
	r.rtrDue = false
	if q.set.RTR == mpa.RTRRead {
		r.reads = append(r.reads,
			readRequest{idx: noWR, msn: r.requestMSN, last: true, sink: zeroSTag})
		r.requestMSN++
	}
}

// rtrUnanswered reports whether the ready-to-receive message is a READ whose
// response has not come.
func (q *QP) rtrUnanswered() bool { return len(q.req.reads) > 0 && q.req.reads[0].idx == noWR }

// midMessage reports whether a SEND or WRITE is begun and not finished: messages
// do not interleave. The requests of one READ are messages of their own.
func (q *QP) midMessage() bool {
	r := &q.req
	return r.immDue || r.off > 0 && !isRead(q.SQ.AtAbs(r.cur).Opcode)
}

// peekRequest makes the next segment of the send queue, executing local
// operations on the way; false if nothing may be sent now.
func (q *QP) peekRequest(now monotime.Time) bool {
	r := &q.req
	for r.cur < q.SQ.Tail() && !r.blocked {
		w := q.SQ.AtAbs(r.cur)
		if w.State == wqePosted {
			if q.State() == ib.QPSQD || w.Flags&ib.SendFence != 0 && len(r.reads) > 0 {
				return false
			}
			if qp.IsLocal(w.Opcode) {
				if !q.runLocal(now, w) {
					return false
				}
				continue
			}
			if s, v := q.checkRequest(w); s != ib.WCSuccess {
				q.failWQE(now, w, s, v)
				return false
			}
			w.State = wqeBegun
		}
		if isRead(w.Opcode) {
			if len(r.reads) >= int(q.Attr.MaxRdAtomic) {
				return false
			}
			q.makeRead(w)
			return true
		}
		if s, v := q.makeData(w); s != ib.WCSuccess {
			q.failWQE(now, w, s, v)
			return false
		}
		return true
	}
	return false
}

// checkRequest finds the error of a work request before any of it is sent.
func (q *QP) checkRequest(w *queue.SendWQE) (ib.WCStatus, ib.VendorErr) {
	need := ib.Access(0)
	switch w.Opcode {
	case ib.WRSend, ib.WRSendWithInv, ib.WRRDMAWrite:
	case ib.WRRDMARead:
		need = ib.AccessLocalWrite
	case ib.WRRDMAWriteWithImm, ib.WRAtomicCmpAndSwp, ib.WRAtomicFetchAndAdd:
		atomic := w.Opcode != ib.WRRDMAWriteWithImm
		if !q.set.Extensions && !(atomic && q.set.Urdma) {
			return ib.WCLocQPOpErr, ib.VendorOpcode
		}
		if atomic {
			need = ib.AccessLocalWrite
		}
	default:
		return ib.WCLocQPOpErr, ib.VendorOpcode
	}
	if isRead(w.Opcode) && q.Attr.MaxRdAtomic == 0 {
		return ib.WCLocQPOpErr, ib.VendorDepth
	}
	if qp.BadLength(w) {
		return ib.WCLocLenErr, ib.VendorLength
	}
	if w.Flags&ib.SendInline != 0 && need == 0 {
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

// makeData makes the next segment of a SEND or WRITE.
func (q *QP) makeData(w *queue.SendWQE) (ib.WCStatus, ib.VendorErr) {
	r, o := &q.req, &q.out
	if r.immDue {
		op := wire.Immediate
		if w.Flags&ib.SendSolicited != 0 {
			op = wire.ImmediateSE
		}
		o.header(wire.Header{Control: wire.NewControl(op, true), QN: wire.QNSend, MSN: r.sendMSN})
		o.head = wire.ImmData{Data: w.Imm}.Append(o.head)
		return ib.WCSuccess, ib.VendorNone
	}
	write := w.Opcode == ib.WRRDMAWrite || w.Opcode == ib.WRRDMAWriteWithImm
	op := sendOpcode(w)
	if write {
		op = wire.RDMAWrite
	}
	c, n := q.cut(op, w.Length-r.off)
	if write {
		o.header(wire.Header{Control: c, STag: tagOf(w.RKey, w.Length),
			TO: w.RemoteAddr + uint64(r.off)})
	} else {
		h := wire.Header{Control: c, QN: wire.QNSend, MSN: r.sendMSN, MO: r.off}
		if w.Opcode == ib.WRSendWithInv {
			h.STag = w.InvalidateKey
		}
		o.header(h)
	}
	p := &o.payload
	p.Size = int(n)
	if w.Flags&ib.SendInline != 0 {
		p.Bytes = w.Inline[r.off : r.off+n]
		return ib.WCSuccess, ib.VendorNone
	}
	if n == 0 {
		return ib.WCSuccess, ib.VendorNone
	}
	spans, s, v := q.Gather(o.spans[:0], w, int(r.off), int(n))
	if s == ib.WCSuccess {
		o.spans, p.Spans = spans, spans
	}
	return s, v
}

// cut returns the control bytes of a message's next segment, and how many of the left bytes it
// carries.
func (q *QP) cut(op wire.Opcode, left uint32) (wire.Control, uint32) {
	c := wire.NewControl(op, false)
	size := uint32(q.set.MaxSegment - c.HeaderBytes())
	if q.set.Counted {
		size = 1 << (bits.Len32(size) - 1) // messages mostly are so many
	}
	n := min(size, left)
	c.Last = n == left
	if q.set.Counted {
		c.More = uint8(min((left-n)/size, wire.MaxMore))
	}
	return c, n
}

// tagOf returns the key as it goes on the wire.
func tagOf(k ib.RKey, n uint32) ib.RKey {
	if k == 0 && n == 0 {
		return zeroSTag
	}
	return k
}

func sendOpcode(w *queue.SendWQE) wire.Opcode {
	op := wire.Send
	if w.Opcode == ib.WRSendWithInv {
		op = wire.SendInvalidate
	}
	if w.Flags&ib.SendSolicited != 0 {
		op += wire.SendSE - wire.Send
	}
	return op
}

// makeRead makes an atomic request, or a READ request of one element.
func (q *QP) makeRead(w *queue.SendWQE) {
	r, o := &q.req, &q.out
	if w.Opcode != ib.WRRDMARead {
		a := wire.AtomicReq{Op: wire.FetchAdd, ID: r.atomicID, STag: w.RKey, TO: w.RemoteAddr,
			AddSwap: w.CompareAdd}
		switch swap := w.Opcode == ib.WRAtomicCmpAndSwp; {
		case swap && q.set.Urdma:
			a.Op, a.AddSwap, a.Compare = wire.UrdmaCmpSwap, w.Swap, w.CompareAdd
		case swap:
			a.Op, a.AddSwap, a.AddSwapMask, a.Compare, a.CompareMask = wire.CmpSwap, w.Swap,
				^uint64(0), w.CompareAdd, ^uint64(0)
		}
		o.header(q.requestHeader(wire.AtomicRequest))
		o.head = a.Append(o.head)
		return
	}
	for r.sge < len(w.SGE) && w.SGE[r.sge].Length == 0 {
		r.sge++
	}
	a := wire.ReadReq{SinkSTag: zeroSTag, SrcSTag: tagOf(w.RKey, w.Length),
		SrcTO: w.RemoteAddr + uint64(r.off)}
	if r.sge < len(w.SGE) {
		g := w.SGE[r.sge]
		a.SinkSTag, a.SinkTO, a.Size = ib.RKey(g.LKey), g.Addr, g.Length
	}
	o.read = a
	o.header(q.requestHeader(wire.ReadRequest))
	o.head = a.Append(o.head)
}

// commitRequest moves past the segment that peekRequest made; at is where in
// the stream it ends.
func (q *QP) commitRequest(at uint64) {
	r, o := &q.req, &q.out
	w := q.SQ.AtAbs(r.cur)
	if isRead(w.Opcode) {
		q.commitRead(w)
		return
	}
	r.off += uint32(o.payload.Size)
	if r.off < w.Length {
		return
	}
	switch {
	case r.immDue:
		r.sendMSN++
	case w.Opcode == ib.WRRDMAWriteWithImm:
		r.immDue = true
		return
	case w.Opcode != ib.WRRDMAWrite:
		r.sendMSN++
	}
	r.ends[r.cur%uint64(len(r.ends))] = at
	w.State = wqeSent
	q.nextWQE()
}

func (q *QP) commitRead(w *queue.SendWQE) {
	r, o := &q.req, &q.out
	e := readRequest{idx: r.cur, msn: r.requestMSN, last: true}
	q.Count[SentReads]++
	r.requestMSN++
	if w.Opcode == ib.WRRDMARead {
		e.sink, e.start, e.to, e.left = o.read.SinkSTag, o.read.SinkTO, o.read.SinkTO, o.read.Size
		r.off += o.read.Size
		r.sge++
		e.last = r.off == w.Length
	} else {
		e.atomic, e.id = true, r.atomicID
		r.atomicID++
	}
	r.reads = append(r.reads, e)
	if e.last {
		w.State = wqeWaiting
		q.nextWQE()
	}
}

func (q *QP) nextWQE() {
	r := &q.req
	r.cur++
	r.off, r.sge, r.immDue = 0, 0, false
	q.Count[SentMessages]++
}

// runLocal runs LOCAL_INV, REG_MR and BIND_MW, reporting whether the queue may
// go on. LOCAL_INV waits until everything before it has completed.
func (q *QP) runLocal(now monotime.Time, w *queue.SendWQE) bool {
	if w.Opcode == ib.WRLocalInv && q.req.cur != q.SQ.Head() {
		return false
	}
	if s, v := q.ExecuteLocal(w); s != ib.WCSuccess {
		q.failWQE(now, w, s, v)
		return false
	}
	w.State = wqeDone
	q.req.cur++
	q.retire(now)
	return true
}

// runLocals executes the local operations that are next: they need no peer.
func (q *QP) runLocals(now monotime.Time) {
	r := &q.req
	for r.cur < q.SQ.Tail() && !r.blocked && q.State() == ib.QPRTS {
		w := q.SQ.AtAbs(r.cur)
		if !qp.IsLocal(w.Opcode) || !q.runLocal(now, w) {
			return
		}
	}
}

// failWQE marks a work request that cannot be sent. It completes with its error
// once everything before it has completed.
func (q *QP) failWQE(now monotime.Time, w *queue.SendWQE, s ib.WCStatus, v ib.VendorErr) {
	w.State = wqeFailed
	w.Sent = uint32(s)<<16 | uint32(v)
	q.req.blocked = true
	q.retire(now)
}

// HandleWritten notes that the stream is out up to a position: memory of earlier output is the
// application's again.
func (q *QP) HandleWritten(now monotime.Time, at uint64) {
	q.req.written = at
	q.retire(now)
}

// retire completes work requests from the oldest on.
func (q *QP) retire(now monotime.Time) {
	r := &q.req
	for q.SQ.Len() > 0 {
		w := q.SQ.At(0)
		switch w.State {
		case wqeSent:
			if r.ends[q.SQ.Head()%uint64(len(r.ends))] > r.written {
				return
			}
		case wqeDone:
		case wqeFailed:
			q.letGo()
			q.CompleteSend(w, ib.WCStatus(w.Sent>>16), ib.VendorErr(w.Sent))
			q.SQ.PopFront()
			r.cur = q.SQ.Head()
			// Spec: RFC 5040, 7.1: the peer learns that no more comes.
			q.terminate(now, wire.RDMAPLocalCatastrophic, false, ib.EventQPFatal)
			return
		default:
			return
		}
		q.CompleteSend(w, ib.WCSuccess, ib.VendorNone)
		q.SQ.PopFront()
		q.checkDrained()
	}
	q.checkDisconnect(now)
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
		}
	}
}

// finishRead takes the oldest READ or atomic off the list.
func (q *QP) finishRead(now monotime.Time) {
	r := &q.req
	e := r.reads[0]
	r.reads = r.reads[:copy(r.reads, r.reads[1:])]
	if e.idx == noWR || !e.last {
		return
	}
	q.SQ.AtAbs(e.idx).State = wqeDone
	q.retire(now)
}

// finishAtomic stores the result of an atomic.
func (q *QP) finishAtomic(now monotime.Time, orig uint64) (wire.TermError, bool) {
	w := q.SQ.AtAbs(q.req.reads[0].idx)
	var word [8]byte
	binary.NativeEndian.PutUint64(word[:], orig)
	if s, v := q.Scatter(w.SGE, 0, word[:]); s != ib.WCSuccess {
		q.completeOldestRead(s, v)
		return wire.RDMAPLocalCatastrophic, false
	}
	q.finishRead(now)
	return wire.TermError{}, true
}
