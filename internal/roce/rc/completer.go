// SPDX-License-Identifier: BSD-2-Clause

package rc

import (
	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/queue"
	"verbena/internal/roce"
	wire "verbena/internal/wire/roce"
)

// handleResponse takes an acknowledgement or a READ or atomic response, which says
// that it stands for n packets.
//
// Spec: IBTA vol. 1, 9.7.5.1 and figure 98 (requester processing of responses).
func (q *QP) handleResponse(now monotime.Time, p *wire.Packet, n uint32) {
	r := &q.req
	if q.State() != ib.QPRTS && q.State() != ib.QPSQD {
		q.Count[roce.DroppedState]++
		return
	}
	// A forged packet, or one of an earlier connection, tells nothing of this responder.
	if p.PSN.Before(r.max) && !p.PSN.Before(r.una) {
		r.own = r.own || p.Selective || p.Info.Operation == wire.OpSelectiveAck
		r.readsRETHs = r.readsRETHs || p.AllRETH
	}
	if p.Info.HasAETH && p.AETH.Syndrome.Kind() == wire.KindNAK {
		q.handleNAK(now, p)
		return
	}
	if !p.PSN.Before(r.max) || p.PSN.Before(r.una) {
		// A ghost: answered before, or never asked. Its credits are as good as new
		// if it repeats the newest acknowledgement.
		if p.PSN == r.una.Prev() && p.Info.Operation == wire.OpAcknowledge &&
			p.AETH.Syndrome.Kind() == wire.KindACK {
			q.takeCredits(p.AETH)
			return
		}
		q.Count[roce.StaleAck]++
		return
	}
	switch p.Info.Operation {
	case wire.OpAcknowledge:
		if p.AETH.Syndrome.Kind() == wire.KindRNRNAK {
			q.handleRNR(now, p)
			return
		}
		q.executedBefore(now, p.PSN.Add(1))
		q.takeCredits(p.AETH)
	case wire.OpSelectiveAck:
		q.handleSack(now, p)
	default:
		q.handleData(now, p, n)
	}
}

// impliedNAK asks again for all responses from the one expected next on.
func (q *QP) impliedNAK(now monotime.Time) {
	r := &q.req
	q.Count[roce.ImpliedNAK]++
	if !r.loss.mayGoBack(now, r.una) {
		return
	}
	q.Count[roce.Lost]++
	q.goBack(r.una)
	r.lost(now, q.MTU)
	q.setTimer(now)
}

// progress moves una to psn, completes the work before it and starts the timers afresh.
func (q *QP) progress(now monotime.Time, psn ib.PSN) {
	r := &q.req
	before := r.unknown()
	r.una = psn
	if r.board.inUse() {
		r.board.advance(now, psn, r.loss.RTT.Shortest)
	}
	q.progressed(now, before, true)
}

// progressed handles an acknowledgement that covers new PSNs. before is the number of packets that
// were not known to have arrived until then. After going back it may cover what was known, which is
// no news: else a peer that never answers the oldest request would hold the queue pair. It puts off
// the next probe, but not the local ACK time-out.
func (q *QP) progressed(now monotime.Time, before int, news bool) {
	r := &q.req
	came := before - r.unknown()
	r.loss.acked(now, r, came*q.packetBytes())
	q.endRound(now)
	if r.next.Before(r.una) { // acknowledged while going back
		q.seek(r.una)
	}
	if news {
		r.retries, r.rnrRetries, r.overdue = q.Attr.RetryCnt, q.Attr.RNRRetry, 0
	}
	if r.known.Before(r.una) {
		r.known = r.una
	}
	if n := r.readsBefore(r.una); n > 0 {
		r.reads = r.reads[:copy(r.reads, r.reads[n:])]
	}
	q.retire()
	if news {
		q.armTimer(now)
	} else if came > 0 && r.timer != monotime.Never { // none runs while an RNR NAK is waited out
		q.setTimer(now)
	}
}

// retire completes, in order, the work requests that are finished.
func (q *QP) retire() {
	r := &q.req
	for q.SQ.Len() > 0 && q.SQ.Head() <= r.cur {
		w := q.SQ.At(0)
		switch w.State {
		case wqePosted:
			q.checkDrained()
			return
		case wqeSent:
			if !w.LastPSN.Before(r.una) {
				q.checkDrained()
				return
			}
		case wqeFailed:
			s, v := ib.WCStatus(w.Sent>>16), ib.VendorErr(w.Sent&0xffff)
			q.CompleteSend(w, s, v)
			q.SQ.PopFront()
			q.setState(ib.QPErr)
			return
		}
		q.CompleteSend(w, ib.WCSuccess, ib.VendorNone)
		q.SQ.PopFront()
		if r.cur < q.SQ.Head() {
			r.cur, r.off = q.SQ.Head(), 0
		}
	}
	q.checkDrained()
}

// checkDrained reports once that a queue in SQD has nothing outstanding.
func (q *QP) checkDrained() {
	r := &q.req
	if q.State() != ib.QPSQD || r.drained || r.una != r.max || r.off != 0 {
		return
	}
	r.drained = true
	if q.Attr.EnSQDAsyncNotify {
		q.Raise(ib.EventSQDrained)
	}
}

// handleData takes a READ response or an atomic response with psn in the window. One of Verbena is
// placed whenever it comes. One of another responder is placed in its order: Linux's rxe answers
// no part of a READ that begins before one that was asked for again. After asking for a gap a
// requester could not go back to an earlier PSN of that READ.
func (q *QP) handleData(now monotime.Time, p *wire.Packet, n uint32) {
	r := &q.req
	i := r.readOf(p.PSN)
	if i < 0 {
		q.Count[roce.BadResponse]++
		return
	}
	if r.has(p.PSN) {
		q.Count[roce.StaleAck]++
		return
	}
	oldest := p.PSN == q.responsePSN()
	if !oldest && !(r.own && q.mayOvertake(i)) {
		q.impliedNAK(now)
		return
	}
	if oldest && p.PSN != r.una { // acknowledges the SENDs and WRITEs before it
		q.progress(now, p.PSN)
	}
	e := &r.reads[i]
	if e.wqe < q.SQ.Head() || e.wqe >= q.SQ.Tail() {
		q.Count[roce.BadResponse]++
		return
	}
	w, last := q.SQ.AtAbs(e.wqe), p.PSN.Add(n-1)
	if last.After(e.last) {
		q.Count[roce.BadResponse]++
		if oldest {
			q.failOldest(now, ib.WCBadRespErr, ib.VendorLength)
		}
		return
	}
	if s, v := q.place(w, e, p, last); s != ib.WCSuccess {
		q.Count[roce.BadResponse]++
		if oldest { // else it is asked for again, and may be better then
			q.failOldest(now, s, v)
		}
		return
	}
	// The MSN of a READ that overtook another leaves out what the responder still misses.
	if oldest && p.Info.HasAETH && !p.PSN.Before(r.executed()) {
		q.takeCredits(p.AETH)
	}
	if r.board.inUse() || !oldest {
		q.came(now, p.PSN, last.Add(1))
		return
	}
	q.progress(now, last.Add(1))
}

// mayOvertake reports whether responses of the READ request or atomic at i may be taken although an
// earlier one is missing. A READ that is repeated reads the memory again, after those that were
// taken. But work requests of READs are carried out in their order, unless the memory that they
// read into is of relaxed ordering.
//
// Spec: IBTA vol. 1, 10.8.3.3 (ordering of READs); ibv_reg_mr(3), IBV_ACCESS_RELAXED_ORDERING.
func (q *QP) mayOvertake(i int) bool {
	e := &q.req.reads[i]
	if e.overtakes || e.wqe == q.req.reads[0].wqe {
		return true
	}
	w := q.SQ.AtAbs(e.wqe)
	e.overtakes = w.Opcode != ib.WRRDMARead || q.readsIntoRelaxed(w)
	return e.overtakes
}

// readsIntoRelaxed reports whether a READ's memory here is of relaxed ordering.
func (q *QP) readsIntoRelaxed(w *queue.SendWQE) bool {
	for _, sge := range w.SGE {
		const relaxed = ib.AccessLocalWrite | ib.AccessRelaxedOrdering
		s, v := q.Mem.Local(q.PD, sge, relaxed)
		if v != ib.VendorNone {
			return false
		}
		s.Release()
	}
	return true
}

// responsePSN returns the PSN of the next response expected.
func (q *QP) responsePSN() ib.PSN {
	if f := q.req.reads[0].first; f.After(q.req.una) {
		return f
	}
	return q.req.una
}

// place checks a response, which takes the PSNs to last, against its request and
// scatters its payload.
func (q *QP) place(w *queue.SendWQE, e *readRequest, p *wire.Packet, last ib.PSN) (ib.WCStatus,
	ib.VendorErr) {
	var orig [8]byte
	off, data := 0, p.Payload
	switch w.Opcode {
	case ib.WRRDMARead:
		off = int(p.PSN.Diff(w.FirstPSN)) * q.MTU
		want := min(int(w.Length)-off, (int(last.Diff(p.PSN))+1)*q.MTU)
		// A packet answered before the request was repeated counts: it may be a
		// Middle where the repetition has a First. Where a request ends, all agree.
		// A part of it that is repeated may end before.
		if p.Info.Operation != wire.OpReadResponse ||
			p.Info.Last != (last == e.last) && !(p.Info.Last && e.parts) {
			return ib.WCBadRespErr, ib.VendorOpcode
		}
		if len(data) != want {
			return ib.WCBadRespErr, ib.VendorLength
		}
	case ib.WRAtomicCmpAndSwp, ib.WRAtomicFetchAndAdd:
		if p.Info.Operation != wire.OpAtomicAcknowledge {
			return ib.WCBadRespErr, ib.VendorOpcode
		}
		putHost64(orig[:], p.AtomicAck.Orig)
		data = orig[:]
	case ib.WRFlush, ib.WRAtomicWrite:
		if p.Opcode != q.base+wire.RCRDMAReadResponseOnly || len(data) != 0 {
			return ib.WCBadRespErr, ib.VendorOpcode
		}
		return ib.WCSuccess, ib.VendorNone
	default:
		return ib.WCBadRespErr, ib.VendorOpcode
	}
	return q.Scatter(w.SGE, off, data)
}

// handleNAK takes a negative acknowledgement.
//
// Spec: IBTA vol. 1, 9.7.5.2.8 and table 58.
func (q *QP) handleNAK(now monotime.Time, p *wire.Packet) {
	r := &q.req
	code := p.AETH.Syndrome.NAK()
	if code != wire.NAKPSNSequence && p.PSN.Before(r.una) && len(r.reads) > 0 &&
		!p.PSN.Before(r.reads[0].first) {
		// The responder has answered a part of the READ before its turn. Now it refuses all of it.
		q.refused(now, code)
		return
	}
	known := p.PSN.Before(r.executed()) // only a READ may be refused that was carried out before
	if p.PSN.Before(r.una) || !p.PSN.Before(r.max) ||
		known && (code == wire.NAKPSNSequence || p.PSN != r.una) {
		q.Count[roce.StaleAck]++
		return
	}
	q.executedBefore(now, p.PSN)
	if code == wire.NAKPSNSequence {
		q.Count[roce.RcvdSeqNAK]++
		if !r.loss.mayGoBack(now, p.PSN) || !q.spendRetry(now, ib.VendorSequence) {
			return
		}
		q.Count[roce.Lost]++
		q.goBack(p.PSN)
		r.loss.again(now, p.PSN, r.max)
		r.lost(now, q.MTU)
		q.setTimer(now) // the answer to what goes now is due then
		return
	}
	// A response of an earlier request may be missing.
	if r.una != p.PSN && (len(r.reads) == 0 || r.reads[0].last.Before(p.PSN)) {
		if r.loss.mayGoBack(now, p.PSN) {
			q.goBack(p.PSN)
		}
		return
	}
	q.refused(now, code)
}

// refused ends the oldest work request, which the responder has refused.
func (q *QP) refused(now monotime.Time, code wire.Syndrome) {
	switch code {
	case wire.NAKInvalidRequest:
		q.failOldest(now, ib.WCRemInvReqErr, ib.VendorNAKInvalid)
	case wire.NAKRemoteAccess:
		q.failOldest(now, ib.WCRemAccessErr, ib.VendorNAKAccess)
	case wire.NAKRemoteOperational:
		q.failOldest(now, ib.WCRemOpErr, ib.VendorNAKOp)
	case wire.NAKInvalidRD:
		if q.service == wire.ServiceXRC { // a domain that does not fit, in the words of RD
			q.failOldest(now, ib.WCRemInvRDReqErr, ib.VendorNAKInvalid)
			return
		}
		fallthrough
	default:
		q.failOldest(now, ib.WCBadRespErr, ib.VendorOpcode)
	}
}

// failOldest ends the oldest work request with an error and the queue pair
// with it.
func (q *QP) failOldest(now monotime.Time, s ib.WCStatus, v ib.VendorErr) {
	switch v {
	case ib.VendorNAKInvalid, ib.VendorNAKAccess, ib.VendorNAKOp:
		q.Count[roce.RcvdErrorNAK]++
	}
	switch s {
	case ib.WCRetryExcErr:
		q.Count[roce.RetryExceeded]++
	case ib.WCRNRRetryExcErr:
		q.Count[roce.RNRRetryExceeded]++
	}
	if q.SQ.Len() > 0 {
		q.CompleteSend(q.SQ.At(0), s, v)
		q.SQ.PopFront()
	}
	q.setState(ib.QPErr)
}

// handleRNR waits as the responder asks and then repeats from the PSN named. Responses of earlier
// requests may be missing: those are asked for again after the wait. That spends no rnr_retry, but
// one of retry_cnt where a time-out has passed since they were asked for again: none runs
// meanwhile. The responder may refuse the repeated PSN again, and answer the packets after it by a
// SACK.
//
// Spec: IBTA vol. 1, 9.7.5.2.8 (RNR NAK), table 45 (timer).
func (q *QP) handleRNR(now monotime.Time, p *wire.Packet) {
	r := &q.req
	q.Count[roce.RcvdRNRNAK]++
	r.credits.strict = true
	if r.rnrTimer != monotime.Never && p.PSN == r.executed() {
		return // a duplicate of the one being waited for
	}
	if p.PSN.Before(r.executed()) {
		q.Count[roce.StaleAck]++
		return
	}
	q.executedBefore(now, p.PSN)
	again := now.Add(wire.RNRTimer(p.AETH.Syndrome.Value()))
	if p.PSN != r.una && !now.Before(r.overdue) {
		if r.overdue != 0 && !q.spendRetry(now, ib.VendorTimeout) {
			return
		}
		r.overdue = again.Add(r.loss.RTT.Timeout())
	}
	if q.Attr.RNRRetry != infiniteRetries && p.PSN == r.una {
		if r.rnrRetries == 0 {
			q.failOldest(now, ib.WCRNRRetryExcErr, ib.VendorRNR)
			return
		}
		r.rnrRetries--
	}
	q.goBack(p.PSN)
	r.board.loseAll()
	r.rnrTimer = again
	r.timer = monotime.Never
}

// infiniteRetries is the value of rnr_retry that never runs out.
const infiniteRetries = 7
