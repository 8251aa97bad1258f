// SPDX-License-Identifier: BSD-2-Clause

package rc

import (
	"sort"

	"verbena/ib"
	"verbena/internal/congestion"
	"verbena/internal/monotime"
	"verbena/internal/qp"
	"verbena/internal/queue"
	"verbena/internal/roce"
	wire "verbena/internal/wire/roce"
)

// requester is the sending half: the next work request and packet, and all outstanding packets.
type requester struct {
	cur     uint64 // absolute index of the work request being sent
	off     uint32 // bytes of it that are sent (or, for READ, asked for)
	una     ib.PSN // oldest PSN not acknowledged
	next    ib.PSN // PSN of the next packet
	max     ib.PSN // one past the highest PSN ever sent
	ordered ib.PSN // one past the newest request that is no READ
	ssn     ib.MSN // messages begun
	reads   []readRequest
	failed  uint64 // absolute index of the first work request that failed, if blocked
	blocked bool   // a work request failed; it completes when it is the oldest
	probing bool   // the newest packet is to be repeated, and maybe the oldest
	probed  bool   // the oldest was, and the newest fitted no more
	// Holes are being repeated, to fillEnd. New packets go on at resume.
	filling         bool
	fillEnd, resume ib.PSN
	drained         bool // SQD: nothing outstanding, reported
	own             bool // the responder is one of Verbena
	readsRETHs      bool // it reads those of Middle and Last packets
	// The requests before known were carried out, though the answer of una may be missing.
	known ib.PSN
	// That answer, asked for again after an RNR NAK, is overdue then. 0: it was not asked for.
	overdue monotime.Time

	credits credits

	sinceAckReq int  // packets since the last AckReq
	awaits      bool // one of them ends a request that makes a completion

	retries    uint8 // left before RETRY_EXC
	rnrRetries uint8
	timer      monotime.Time // earliest of probe and local ACK time-out
	rnrTimer   monotime.Time // requests pause until then
	paced      monotime.Time // likewise, for the pace
	loss       recovery
	board      scoreboard
}

// readRequest is a READ request or atomic that was sent: the PSNs of its responses. It stays until
// all of them and those of earlier requests have come, as the responder keeps it for so long.
type readRequest struct {
	first, last ib.PSN
	wqe         uint64 // absolute index of the work request
	parts       bool   // a part that ends before last was asked for again
	overtakes   bool   // its responses may be taken before those of an earlier READ
}

// asked notes that a READ request or atomic asks for the PSNs from first to last. A repeated
// request, or a part of it, is the same request.
func (r *requester) asked(first, last ib.PSN) {
	if i := r.readOf(first); i >= 0 {
		r.reads[i].parts = r.reads[i].parts || last != r.reads[i].last
		return
	}
	r.reads = append(r.reads, readRequest{first: first, last: last, wqe: r.cur})
}

// readOf returns the index of the READ request or atomic that psn answers, -1 if there is none.
func (r *requester) readOf(psn ib.PSN) int {
	i := r.readsBefore(psn)
	if i == len(r.reads) || r.reads[i].first.After(psn) {
		return -1
	}
	return i
}

// readsBefore returns how many requests that are sent before psn wait for
// their answer; after going back, those from psn on are yet to be asked again.
func (r *requester) readsBefore(psn ib.PSN) (n int) {
	return sort.Search(len(r.reads), func(i int) bool { return !r.reads[i].last.Before(psn) })
}

// ackEvery is the number of packets after which an acknowledgement is asked
// for in mid-stream, so that the window moves before it is used up. 128 KiB of
// the largest path MTU: two messages of 64 KiB share one. See endsSoon, too.
const ackEvery = 32

func (r *requester) start(psn ib.PSN, head uint64, a congestion.Algorithm) {
	*r = requester{
		cur: head, una: psn, next: psn, max: psn, ordered: psn, known: psn, reads: r.reads[:0],
		retries: r.retries, rnrRetries: r.rnrRetries,
	}
	r.stopTimers()
	r.loss.start(a)
	r.loss.roundEnd = psn
	r.board.newest = psn
}

func (r *requester) stopTimers() {
	r.timer, r.rnrTimer, r.paced = monotime.Never, monotime.Never, monotime.Never
	r.board.due = monotime.Never
}

// isRead reports whether a request is answered by data or an atomic response
// and so takes part in the READ/atomic depth limit.
func isRead(o ib.WROpcode) bool {
	switch o {
	case ib.WRRDMARead, ib.WRAtomicCmpAndSwp, ib.WRAtomicFetchAndAdd, ib.WRFlush, ib.WRAtomicWrite:
		return true
	}
	return false
}

// consumesRecv reports whether the message takes a receive at the responder,
// and so a credit.
func consumesRecv(o ib.WROpcode) bool {
	switch o {
	case ib.WRSend, ib.WRSendWithImm, ib.WRSendWithInv, ib.WRRDMAWriteWithImm:
		return true
	}
	return false
}

// executed returns one past the newest PSN whose request is known to have been carried out.
func (r *requester) executed() ib.PSN {
	if r.board.inUse() {
		return r.board.executed
	}
	return r.una
}

// States of a send work request, kept in SendWQE.State.
const (
	wqePosted uint8 = iota // not begun
	wqeSent                // has PSNs
	wqeDone                // local operation executed, waits for its turn
	wqeFailed              // completes with status wqeFault when it is the oldest
)

// pollRequests fills the burst with as many request packets as the window, the
// credits and the queue allow.
func (q *QP) pollRequests(now monotime.Time, b *roce.Burst) {
	r := &q.req
	if r.rnrTimer != monotime.Never {
		return
	}
	if b.Payload(q.MTU) > q.MTU { // within a host
		r.loss.Widen()
	}
	if r.probing {
		q.sendProbe(now, b)
	}
	r.paced = monotime.Never
	if r.board.lost > 0 {
		q.repeatLost(now, b)
	}
	upto := r.max
	for first := r.next; !b.Full(); first = r.next {
		w, ok := q.nextWQE(now)
		if !ok {
			break
		}
		if at := r.loss.Pace(now); now.Before(at) && !q.whole(w) {
			r.paced = at
			break
		}
		if q.Rate.Holds(now) {
			break
		}
		if !q.sendPacket(now, w, b) {
			break
		}
		r.loss.Sent(now, int(r.next.Diff(first))*q.packetBytes())
		if r.cur < q.SQ.Tail() && q.SQ.AtAbs(r.cur) == w {
			q.sendMiddles(now, w, b)
		}
	}
	// Packets sent now do not put off the time-out of earlier ones. After an RNR NAK has stopped
	// the timer there may be nothing to send: by a SACK the rest has arrived.
	switch {
	case r.una == r.max:
	case r.timer == monotime.Never:
		q.armTimer(now)
	case r.max != upto && r.cur == q.SQ.Tail() && r.loss.Long():
		q.probeSooner(now)
	}
}

// whole reports whether the rest of w, the last work request, may go at once and not at the pace.
func (q *QP) whole(w *queue.SendWQE) bool {
	r := &q.req
	return r.cur+1 == q.SQ.Tail() &&
		r.loss.Whole(max(r.outstanding(), 0)*q.MTU+int(w.Length-r.off))
}

// nextWQE returns the work request to send from, executing local operations on
// the way, or false if nothing may be sent now.
func (q *QP) nextWQE(now monotime.Time) (*queue.SendWQE, bool) {
	r := &q.req
	for r.cur < q.SQ.Tail() && !(r.blocked && r.cur >= r.failed) {
		w := q.SQ.AtAbs(r.cur)
		fresh := r.off == 0 && w.State == wqePosted
		if fresh {
			if q.State() == ib.QPSQD {
				return nil, false
			}
			if qp.IsLocal(w.Opcode) {
				if !q.runLocal(w) {
					return nil, false
				}
				continue
			}
			if !q.mayBegin(w) {
				return nil, false
			}
		}
		if qp.IsLocal(w.Opcode) { // passed again after going back
			r.cur++
			continue
		}
		if isRead(w.Opcode) && r.readsBefore(r.next) >= max(1, int(q.Attr.MaxRdAtomic)) {
			return nil, false
		}
		if !q.windowOpen() || int(r.next.Diff(r.una)) >= q.spanPackets() {
			return nil, false
		}
		if fresh {
			q.begin(w)
		}
		return w, true
	}
	return nil, false
}

// mayBegin reports whether a new message may start: fence and credits.
func (q *QP) mayBegin(w *queue.SendWQE) bool {
	r := &q.req
	if w.Flags&ib.SendFence != 0 && len(r.reads) > 0 {
		return false
	}
	if isRead(w.Opcode) {
		switch {
		case q.Attr.MaxRdAtomic == 0:
			q.failWQE(w, ib.WCLocQPOpErr, ib.VendorDepth)
			return false
		case qp.BadLength(w):
			q.failWQE(w, ib.WCLocLenErr, ib.VendorLength)
			return false
		}
	}
	// Spec: IBTA 9.7.7.2.5: beyond the limit one message may go, asking for an
	// acknowledgement, so that new credits are learnt of.
	if consumesRecv(w.Opcode) && !r.credits.reach(r.ssn.Add(1)) {
		return r.una == r.next
	}
	return true
}

// begin gives a message its PSNs.
func (q *QP) begin(w *queue.SendWQE) {
	r := &q.req
	n := uint32(1)
	switch w.Opcode {
	case ib.WRAtomicCmpAndSwp, ib.WRAtomicFetchAndAdd, ib.WRFlush, ib.WRAtomicWrite:
	default:
		n = q.Packets(w.Length)
	}
	r.ssn = r.ssn.Add(1)
	w.FirstPSN, w.LastPSN, w.MSN, w.State = r.next, r.next.Add(n-1), r.ssn, wqeSent
}

// windowOpen reports whether the congestion window lets the next packet go.
// One packet may always be outstanding.
func (q *QP) windowOpen() bool {
	out := q.req.outstanding()
	if out == 0 {
		return true
	}
	return out < q.windowPackets()
}

// spanPackets returns how far after the oldest PSN that is missing a new one may be. More than a
// window is outstanding in part only: the rest has arrived, and the responder keeps it. It does not
// keep more than its memory holds: that would be repeated in vain. Its tables take less than a 16th
// of the memory. READs that it keeps are short.
func (q *QP) spanPackets() int {
	span := min(mostSpan*q.windowPackets(), maxKept)
	if q.req.ordered.After(q.req.una) {
		span = min(span, ReorderBytes/2/16*15/(q.MTU+requestBytes))
	}
	return span
}

// mostSpan bounds the windows that may follow. So a packet may be lost several times in a row while
// later packets go on. Where 5 % are lost each way, a packet that is asked for again is lost again
// one time in ten. A window of 10 Gb/s and 10 ms has 12,000 packets.
//
// Source: internal/flows/testdata/goodput.txt. With 4, READ at 5 % has 930 MB/s there instead of
// 1,072 (mean of four seeds).
const mostSpan = 8

func (q *QP) windowPackets() int {
	return min(max(q.req.loss.Bytes()/q.packetBytes(), 1), maxOutstanding)
}

// packetBytes returns how many bytes of the window a packet takes.
func (q *QP) packetBytes() int { return q.MTU + headerBytes }

// headerBytes stands for the headers of a packet in the window.
const headerBytes = 80

// maxOutstanding bounds unacknowledged PSNs well below the 2^23 that serial
// arithmetic can tell apart: the largest window in packets of 1,024 bytes.
// Spec: IBTA 9.7.2.
const maxOutstanding = congestion.Most >> 10

// failWQE marks the work request at cur, which cannot be sent. It completes with its error once
// everything before it has completed, which may have to be repeated until then.
func (q *QP) failWQE(w *queue.SendWQE, s ib.WCStatus, v ib.VendorErr) {
	w.State = wqeFailed
	w.Sent = uint32(s)<<16 | uint32(v)
	r := &q.req
	if !r.blocked || r.cur < r.failed {
		r.blocked, r.failed = true, r.cur
	}
	q.retire()
}

// runLocal runs LOCAL_INV, REG_MR and BIND_MW, reporting whether the queue may go on. LOCAL_INV
// waits until everything before it has completed: outstanding packets may have to be sent again
// from the memory it takes away.
func (q *QP) runLocal(w *queue.SendWQE) bool {
	r := &q.req
	if (w.Opcode == ib.WRLocalInv && r.cur != q.SQ.Head()) ||
		(w.Flags&ib.SendFence != 0 && len(r.reads) > 0) {
		return false
	}
	if status, v := q.ExecuteLocal(w); status != ib.WCSuccess {
		q.failWQE(w, status, v)
		return false
	}
	w.State = wqeDone
	w.FirstPSN, w.LastPSN = r.next, r.next.Prev()
	r.cur++
	q.retire()
	return true
}

// sendPacket adds the next packet of w to the burst, reporting false if the
// burst cannot take it or the work request failed.
func (q *QP) sendPacket(now monotime.Time, w *queue.SendWQE, b *roce.Burst) bool {
	r := &q.req
	var ok bool
	first, bytes := r.next, b.Bytes()
	switch w.Opcode {
	case ib.WRRDMARead:
		ok = q.sendRead(w, b)
	case ib.WRAtomicCmpAndSwp, ib.WRAtomicFetchAndAdd:
		ok = q.sendAtomic(w, b)
	case ib.WRFlush:
		ok = q.sendFlush(w, b)
	default:
		ok = q.sendData(w, b)
	}
	if !ok {
		return false
	}
	q.Rate.Sent(now, b.Bytes()-bytes)
	if w.Opcode != ib.WRRDMARead && r.next.After(r.ordered) {
		r.ordered = r.next
	}
	repeated := !r.next.After(r.max)
	timed := !repeated
	if repeated {
		r.loss.again(now, first, r.next)
		r.loss.Repeated(now)
		timed = r.loss.firstCopy(first)
		q.Count[roce.Retransmitted]++
	} else {
		r.max = r.next
	}
	if timed && r.sinceAckReq == 0 {
		r.loss.sent(now, first, r.una, repeated)
	}
	return true
}

// request opens a request packet of size payload and header bytes beyond the
// BTH. op is RC's; XRC's has an XRCETH more. last says that the message's last
// packet is it, allRETH that it has a RETH although it is not the first.
func (q *QP) request(b *roce.Burst, op wire.Opcode, w *queue.SendWQE, payload int,
	last, allRETH bool) bool {
	r := &q.req
	op += q.base
	h := q.BTH(op, r.next)
	h.Pad = uint8(-payload & 3)
	h.Solicited = last && w.Flags&ib.SendSolicited != 0
	packets := q.Packets(uint32(payload))
	h.AckReq = q.wantAck(w, packets, last)
	r.awaits = r.awaits || last && (q.SignalAll || w.Flags&ib.SendSignaled != 0)
	// A repeated packet is late, and what follows may have waited for it to be acknowledged.
	h.Unawaited = h.AckReq && !r.awaits && r.next == r.max && r.cur+1 == q.SQ.Tail()
	h.Selective, h.Overtakes = true, w.Opcode == ib.WRRDMARead && q.overtakes(w)
	h.AllRETH = allRETH
	size := h.Row().HeaderBytes + payload + int(h.Pad) + wire.ICRCBytes
	if !b.Begin(q.Path, size, h) {
		return false
	}
	b.StandsFor(packets)
	if op.Info().HasXRCETH {
		b.XRCETH(wire.XRCETH{SRQ: w.RemoteSRQ()})
	}
	if h.AckReq {
		r.sinceAckReq, r.awaits = 0, false
	} else {
		r.sinceAckReq += int(packets)
	}
	return true
}

// overtakes reports whether a READ may be carried out before requests that the responder misses:
// they are READs, too, and its responses may be taken before theirs.
func (q *QP) overtakes(w *queue.SendWQE) bool {
	r := &q.req
	if r.ordered.Before(r.una) { // so that it is never half of the PSNs behind
		r.ordered = r.una
	}
	return r.own && !r.ordered.After(r.executed()) &&
		(len(r.reads) == 0 || r.reads[0].wqe == r.cur || q.readsIntoRelaxed(w))
}

// wantAck decides AckReq for a request of a number of packets. It is set on the last
// packet of the queue, on every QP.ackEvery-th packet, and where the window is about to close. A
// NAK sets it on the first packet that is repeated.
func (q *QP) wantAck(w *queue.SendWQE, packets uint32, last bool) bool {
	r := &q.req
	switch {
	case isRead(w.Opcode), r.probing, r.loss.missed(r.next):
		return true
	case r.outstanding()+int(packets) >= q.windowPackets():
		return true
	case r.sinceAckReq+int(packets) >= q.ackEvery() && !q.endsSoon(w, packets):
		return true
	case q.Rate.Limited() && r.sinceAckReq+int(packets) > q.Rate.Within(limitedAck)/q.MTU:
		return true
	case !last:
		return false
	case r.cur+1 == q.SQ.Tail() || q.State() == ib.QPSQD:
		return true
	case !r.credits.reach(w.MSN.Add(1)):
		return true
	}
	n := q.SQ.AtAbs(r.cur + 1)
	return qp.IsLocal(n.Opcode) || n.State == wqeFailed || n.Flags&ib.SendFence != 0 ||
		isRead(n.Opcode)
}

// limitedAck is the time for which a queue pair whose rate is limited sends without asking for an
// acknowledgement. The local ACK time-out, or the probe, runs while it waits in mid-message.
const limitedAck = monotime.Millisecond

// endsSoon reports whether the queue ends with w, at most mostUnasked packets after the next ones,
// and the window has room for them. The last packet asks for an acknowledgement, then. One in the
// middle of a message of 64 KiB would only wake a requester that sleeps.
func (q *QP) endsSoon(w *queue.SendWQE, packets uint32) bool {
	r := &q.req
	left := int(q.Packets(w.Length - r.off))
	return r.cur+1 == q.SQ.Tail() && !r.loss.Long() && left <= q.mostUnasked()+int(packets) &&
		r.outstanding()+left <= q.windowPackets()
}

// sendData sends the next packet of a SEND, a WRITE or an ATOMIC WRITE.
func (q *QP) sendData(w *queue.SendWQE, b *roce.Burst) bool {
	r := &q.req
	n := int(min(w.Length-r.off, uint32(q.payload(b))))
	first, last := r.off == 0, r.off+uint32(n) == w.Length
	if b.Len() > 0 && wire.BTHBytes+n+wire.ICRCBytes > b.SegmentBytes() {
		return false // cheaper than after looking memory up
	}
	spans, status, v := q.Gather(b.Scratch(), w, int(r.off), n)
	if status != ib.WCSuccess {
		q.failWQE(w, status, v)
		return false
	}
	op := roce.DataOpcode(wire.RCSendFirst, w.Opcode, first, last)
	allRETH := n == q.MTU && q.allRETH(op, w, b)
	if !q.request(b, op, w, n, last, allRETH) {
		qp.Release(spans)
		return false
	}
	info := op.Info()
	if info.HasRETH || allRETH {
		b.RETH(reth(w, r.off))
	}
	if info.HasImm {
		b.ImmDt(w.Imm)
	}
	if info.HasIETH {
		b.IETH(w.InvalidateKey)
	}
	if w.Flags&ib.SendInline != 0 {
		b.Copy(w.Inline[r.off : int(r.off)+n])
	}
	if !b.Spans(spans) {
		b.Abort()
		q.failWQE(w, ib.WCLocProtErr, ib.VendorFault)
		return false
	}
	b.End()
	if w.Opcode == ib.WRAtomicWrite {
		r.asked(r.next, r.next)
	}
	r.next = r.next.Add(q.Packets(uint32(n)) - 1)
	q.advance(w, uint32(n), last)
	return true
}

// payload returns how many bytes the next packet may have, within the window.
func (q *QP) payload(b *roce.Burst) int {
	n := b.Payload(q.MTU)
	if n > q.MTU {
		left := q.windowPackets() - q.req.outstanding()
		if q.Rate.Limited() {
			left = min(left, q.Rate.Burst()/q.MTU)
		}
		n = max(min(n, left*q.MTU), q.MTU)
	}
	return n
}

// advance moves the sending position past one packet, whose last PSN is next.
func (q *QP) advance(w *queue.SendWQE, n uint32, last bool) {
	r := &q.req
	r.next = r.next.Add(1)
	if !last {
		r.off += n
		return
	}
	q.Count[roce.SentMessages]++
	r.cur, r.off = r.cur+1, 0
}

// sendRead asks for the next piece of a READ.
func (q *QP) sendRead(w *queue.SendWQE, b *roce.Burst) bool {
	r := &q.req
	n, isNew := q.readPiece(w)
	last := r.off+n == w.Length
	if !q.request(b, wire.RCRDMAReadRequest, w, 0, last, false) {
		return false
	}
	if isNew && r.off > 0 { // each piece counts as a message at the responder
		r.ssn = r.ssn.Add(1)
	}
	b.RETH(wire.RETH{VA: w.RemoteAddr + uint64(r.off), RKey: w.RKey, DMALen: n})
	b.End()
	end := r.next.Add(q.Packets(n) - 1)
	r.asked(r.next, end)
	r.next = end
	q.advance(w, n, last)
	return true
}

func (q *QP) sendAtomic(w *queue.SendWQE, b *roce.Burst) bool {
	r := &q.req
	op, h := wire.RCFetchAdd, wire.AtomicETH{VA: w.RemoteAddr, RKey: w.RKey, SwapAdd: w.CompareAdd}
	if w.Opcode == ib.WRAtomicCmpAndSwp {
		op, h.SwapAdd, h.Compare = wire.RCCompareSwap, w.Swap, w.CompareAdd
	}
	if !q.request(b, op, w, 0, true, false) {
		return false
	}
	b.AtomicETH(h)
	b.End()
	r.asked(r.next, r.next)
	q.advance(w, 0, true)
	return true
}

func (q *QP) sendFlush(w *queue.SendWQE, b *roce.Burst) bool {
	r := &q.req
	if !q.request(b, wire.RCFlush, w, 0, true, false) {
		return false
	}
	b.FETH(wire.FETH{PLT: w.Flush, SEL: w.Level})
	b.RETH(wire.RETH{VA: w.RemoteAddr, RKey: w.RKey, DMALen: w.Length})
	b.End()
	r.asked(r.next, r.next)
	q.advance(w, 0, true)
	return true
}
