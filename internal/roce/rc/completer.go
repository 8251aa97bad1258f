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
		q.ackThrough(now, p.PSN)
		q.takeCredits(p.AETH)
	case wire.OpSelectiveAck:
		q.handleSack(now, p)
	default:
		q.handleData(now, p, n)
	}
}

// takeCredits notes the last message for which the responder has a receive posted.
//
// Spec: IBTA vol. 1, 9.7.7.2 End-to-end flow control, which XRC does without.
func (q *QP) takeCredits(a wire.AETH) {
	n, ok := wire.Credits(a.Syndrome.Value())
	ok = ok && q.service == wire.ServiceRC
	q.req.credits = ok
	if ok {
		q.req.limit = a.MSN.Add(n)
	}
}

// ackThrough retires everything up to and including psn. A READ, an atomic or
// another request answered by its own response stops it: its response was
// lost, which is an implied NAK.
//
// Spec: IBTA vol. 1, 9.7.5.1.4 (implied NAK).
func (q *QP) ackThrough(now monotime.Time, psn ib.PSN) {
	r := &q.req
	if len(r.reads) > 0 && !r.reads[0].first.After(psn) {
		at := r.reads[0].first
		if at.Before(r.una) {
			at = r.una
		}
		if at.After(r.una) {
			q.progress(now, at)
		}
		q.impliedNAK(now)
		return
	}
	q.progress(now, psn.Add(1))
}

// impliedNAK asks again for the response expected next.
func (q *QP) impliedNAK(now monotime.Time) {
	r := &q.req
	q.Count[roce.ImpliedNAK]++
	if !r.loss.mayGoBack(now, r.una) {
		return
	}
	q.goBack(r.una)
	r.lost(now, q.MTU)
}

// progress moves una to psn, completes the work before it and starts the timers afresh.
func (q *QP) progress(now monotime.Time, psn ib.PSN) {
	r := &q.req
	before := r.unknown()
	r.una = psn
	if r.board.inUse() {
		r.board.advance(now, psn, r.loss.RTT.Shortest)
	}
	r.loss.acked(now, r, (before-r.unknown())*q.MTU)
	q.endRound(now)
	if r.next.Before(psn) { // acknowledged while going back
		q.seek(psn)
	}
	r.retries, r.rnrRetries = q.Attr.RetryCnt, q.Attr.RNRRetry
	q.retire()
	q.armTimer(now)
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

// handleData takes a READ response or an atomic response with psn in the
// window. Responses come in order; one that is skipped was lost.
func (q *QP) handleData(now monotime.Time, p *wire.Packet, n uint32) {
	r := &q.req
	if len(r.reads) == 0 {
		q.Count[roce.BadResponse]++
		return
	}
	if want := q.responsePSN(); p.PSN != want {
		if p.PSN.After(want) {
			q.impliedNAK(now)
		} else {
			q.Count[roce.StaleAck]++
		}
		return
	}
	if p.PSN != r.una { // acknowledges the SENDs and WRITEs before it
		q.progress(now, p.PSN)
	}
	if q.SQ.Len() == 0 {
		q.Count[roce.BadResponse]++
		return
	}
	w := q.SQ.At(0)
	if w.State != wqeSent || p.PSN.Before(w.FirstPSN) || p.PSN.After(w.LastPSN) {
		q.Count[roce.BadResponse]++
		return
	}
	last := p.PSN.Add(n - 1)
	if s, v := q.place(w, p, last); s != ib.WCSuccess {
		q.Count[roce.BadResponse]++
		q.CompleteSend(w, s, v)
		q.SQ.PopFront()
		q.setState(ib.QPErr)
		return
	}
	if !last.Before(r.reads[0].last) {
		r.reads = r.reads[:copy(r.reads, r.reads[1:])]
	}
	if p.Info.HasAETH {
		q.takeCredits(p.AETH)
	}
	q.progress(now, last.Add(1))
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
func (q *QP) place(w *queue.SendWQE, p *wire.Packet, last ib.PSN) (ib.WCStatus, ib.VendorErr) {
	var orig [8]byte
	off, data := 0, p.Payload
	switch w.Opcode {
	case ib.WRRDMARead:
		off = int(p.PSN.Diff(w.FirstPSN)) * q.MTU
		want := min(int(w.Length)-off, (int(last.Diff(p.PSN))+1)*q.MTU)
		// A packet answered before the request was repeated counts: it may be a
		// Middle where the repetition has a First. Where a request ends, all agree.
		if p.Info.Operation != wire.OpReadResponse ||
			p.Info.Last != (last == q.req.reads[0].last) || last.After(q.req.reads[0].last) {
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
	if p.PSN.Before(r.una) || !p.PSN.Before(r.max) {
		q.Count[roce.StaleAck]++
		return
	}
	// Everything before the PSN named was received, unless a response of it is
	// still missing.
	if len(r.reads) > 0 && r.reads[0].first.Before(p.PSN) {
		if p.AETH.Syndrome.NAK() == wire.NAKPSNSequence {
			q.Count[roce.RcvdSeqNAK]++
			q.impliedNAK(now)
			return
		}
		if r.reads[0].last.Before(p.PSN) {
			q.impliedNAK(now)
			return
		}
	} else if p.PSN.After(r.una) {
		q.progress(now, p.PSN)
	}
	switch code := p.AETH.Syndrome.NAK(); code {
	case wire.NAKPSNSequence:
		q.Count[roce.RcvdSeqNAK]++
		if !r.loss.mayGoBack(now, p.PSN) {
			return
		}
		if !q.spendRetry(now, ib.VendorSequence) {
			return
		}
		q.goBack(p.PSN)
		r.lost(now, q.MTU)
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
	if q.SQ.Len() > 0 {
		q.CompleteSend(q.SQ.At(0), s, v)
		q.SQ.PopFront()
	}
	q.setState(ib.QPErr)
}

// handleRNR waits as the responder asks and then repeats from the PSN named.
//
// Spec: IBTA vol. 1, 9.7.5.2.8 (RNR NAK), table 45 (timer).
func (q *QP) handleRNR(now monotime.Time, p *wire.Packet) {
	r := &q.req
	q.Count[roce.RcvdRNRNAK]++
	if len(r.reads) > 0 && r.reads[0].first.Before(p.PSN) {
		q.impliedNAK(now)
		return
	}
	if r.rnrTimer != monotime.Never && p.PSN == r.una {
		return // a duplicate of the one being waited for
	}
	if p.PSN.After(r.una) {
		q.progress(now, p.PSN)
	}
	if q.Attr.RNRRetry != infiniteRetries {
		if r.rnrRetries == 0 {
			q.failOldest(now, ib.WCRNRRetryExcErr, ib.VendorRNR)
			return
		}
		r.rnrRetries--
	}
	left := r.rnrRetries
	q.goBack(p.PSN)
	r.rnrRetries = left
	r.rnrTimer = now.Add(wire.RNRTimer(p.AETH.Syndrome.Value()))
	r.timer = monotime.Never
}

// infiniteRetries is the value of rnr_retry that never runs out.
const infiniteRetries = 7
