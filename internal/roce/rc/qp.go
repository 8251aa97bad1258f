// SPDX-License-Identifier: BSD-2-Clause

package rc

import (
	"verbena/ib"
	"verbena/internal/congestion"
	"verbena/internal/mem"
	"verbena/internal/monotime"
	"verbena/internal/qp"
	"verbena/internal/roce"
	wire "verbena/internal/wire/roce"
)

// QP is the protocol state of one reliable connected queue pair.
type QP struct {
	roce.Core
	flavour
	req  requester
	resp responder
	away away
	cnp  notifier
	now  monotime.Time // of the newest packet or time-out
}

// New returns a queue pair in the RESET state.
func New(c roce.Config) *QP { return newQP(c, connected) }

func newQP(c roce.Config, f flavour) *QP {
	if c.Reorder == nil {
		c.Reorder = mem.NewBudget(ReorderBytes)
	}
	q := &QP{Core: roce.NewCore(c), flavour: f}
	q.req.stopTimers()
	return q
}

// Query fills the attributes that the queue pair owns.
func (q *QP) Query(attr *ib.QPAttr) {
	*attr = q.Attr
	attr.State, attr.CurState = q.State(), q.State()
	attr.SQPSN = q.req.next
	attr.RQPSN = q.resp.epsn
	attr.SQDraining = q.State() == ib.QPSQD && !q.req.drained
}

// PathState returns the measurements of the path to the peer. Of READs the responses are in flight.
func (q *QP) PathState() congestion.Path {
	p := q.req.loss.Path()
	c := q.Core.PathState()
	p.Lost, p.Repeated, p.Marked, p.Notified = c.Lost, c.Repeated, c.Marked, c.Notified
	p.InFlight = int64(max(q.req.outstanding(), 0)) * int64(q.MTU)
	return p
}

// Flow implements qp.Flowing.
func (q *QP) Flow() qp.Flow {
	r := &q.req
	return qp.Flow{Outstanding: max(r.outstanding(), 0), Credits: r.credits.left(r.ssn),
		Retries: int(r.retries), RNRRetries: int(r.rnrRetries)}
}

// Modify applies a legal modification.
func (q *QP) Modify(now monotime.Time, a *ib.QPAttr, mask ib.QPAttrMask, path *roce.Path) {
	if path != nil {
		path = path.WithECN(roce.ECT0)
	}
	before := q.Path
	q.Apply(a, mask, path)
	if q.Path != before && q.Path != path {
		q.migrated(now)
	}
	if mask&ib.QPRQPSN != 0 {
		q.startResponder(a.RQPSN)
	}
	if mask&ib.QPSQPSN != 0 {
		q.req.start(a.SQPSN, q.SQ.Head(), q.Congestion)
	}
	if mask&ib.QPRetryCnt != 0 {
		q.req.retries = a.RetryCnt
	}
	if mask&ib.QPRNRRetry != 0 {
		q.req.rnrRetries = a.RNRRetry
	}
	if mask&ib.QPStateAttr != 0 && a.State != q.State() {
		q.setState(a.State)
	}
}

// setState enters a state that the object layer or a fault chose.
func (q *QP) setState(s ib.QPState) {
	from := q.State()
	q.Enter(s)
	switch s {
	case ib.QPReset:
		q.Discard()
		q.Reset()
		*q = QP{Core: q.Core, flavour: q.flavour}
		q.req.stopTimers()
	case ib.QPSQD:
		q.req.drained = false
		q.checkDrained()
	case ib.QPErr:
		if from != ib.QPErr {
			q.flush()
		}
	}
}

// fail takes the queue pair to the error state and tells the application why.
func (q *QP) fail(e ib.EventType) {
	if q.State() == ib.QPErr {
		return
	}
	q.Raise(e)
	q.setState(ib.QPErr)
}

// flush completes all posted work with WR_FLUSH_ERR, in queue order.
//
// Spec: IBTA vol. 1, 10.3.1.7 Error state.
func (q *QP) flush() {
	q.req.stopTimers()
	q.resp.out, q.resp.rate = q.resp.out[:0], nil
	q.Discard()
	if q.domain == nil {
		q.Flush()
	} else { // the receives are nobody's in particular: none is the last one
		q.FlushRecvs()
	}
	q.req.cur = q.SQ.Head()
}

// Doorbell handles posted work. In the error state it is flushed.
func (q *QP) Doorbell(now monotime.Time) {
	if q.State() == ib.QPErr {
		q.FlushSends()
		q.FlushRecvs()
		q.req.cur = q.SQ.Head()
	}
}

// HandleInput takes one packet for this queue pair whose ICRC is right.
func (q *QP) HandleInput(now monotime.Time, p *wire.Packet, m *roce.Meta) {
	q.now = now
	service := q.service
	if p.Opcode == wire.SelectiveAcknowledge {
		service = wire.ServiceOwn
	}
	if p.Opcode == wire.CNP {
		service = wire.ServiceCNP
	}
	path := q.Path
	if !q.Admit(p, m, service, q.MayMigrate() && q.expects(p)) {
		return
	}
	if q.Path != path {
		q.migrated(now)
	}
	if p.Opcode == wire.CNP {
		q.handleCNP(now)
		return
	}
	if m.CE() {
		q.handleMark(now, p)
	}
	if p.Info.Response && !q.sends || p.Info.Request && !q.serves {
		q.Count[roce.UnexpectedPacket]++
		return
	}
	if p.Info.Response {
		q.handleResponse(now, p, m.Packets(p))
		return
	}
	if q.State() == ib.QPErr {
		q.handleAfterFatal(p)
		return
	}
	q.Established()
	q.handleRequest(p, m.Packets(p))
}

// PollOutput fills b with the next burst. Responses go first, as a requester
// elsewhere waits for them. The place of a lone acknowledgement is that of Burst.PlaceAck.
func (q *QP) PollOutput(now monotime.Time, b *roce.Burst) bool {
	if q.Path == nil || q.State() < ib.QPRTR {
		return false
	}
	if q.cnp.pending {
		q.sendCNP(b)
		q.Sent(b)
		return b.Len() > 0
	}
	requests := q.State() == ib.QPRTS || q.State() == ib.QPSQD
	place := b.AckPlace()
	if place == roce.AckBefore && !q.resp.awaited {
		place = roce.AckBehind
	}
	later := place == roce.AckLater
	if requests && q.loneAck() && (later || place == roce.AckBehind && !q.resp.ackWaited) {
		q.pollRequests(now, b)
		q.resp.ackWaited = !later // for one burst only: the peer may be blocked on it
		if n := b.Packets(); n > 0 && n < shortBurst {
			if !later {
				q.pollResponses(now, b) // behind the answer if it fits the burst, else in the next
			}
			q.Sent(b)
			return true
		}
	}
	q.pollResponses(now, b)
	q.resp.ackWaited = q.resp.ackWaited && len(q.resp.out) > 0
	if requests && b.Len() == 0 {
		q.pollRequests(now, b)
	}
	q.Sent(b)
	return b.Len() > 0
}

// shortBurst is the length below which a burst is taken for an answer that the peer waits for, not
// for a part of a stream.
const shortBurst = 4

// loneAck reports whether all that is owed is one positive acknowledgement.
func (q *QP) loneAck() bool {
	out := q.resp.out
	return len(out) == 1 && out[0].kind == respAck && out[0].syndrome.Kind() == wire.KindACK
}

// AckMayWait reports whether the output can wait until the application has seen its completions. It
// is then a lone acknowledgement, of psn, of a message that the application was notified of and may
// answer.
func (q *QP) AckMayWait() (psn ib.PSN, ok bool) {
	if q.cnp.pending || q.away.cur != nil || !q.loneAck() || !q.resp.delivered ||
		q.req.cur != q.SQ.Tail() {
		return 0, false
	}
	return q.resp.out[0].psn, true
}

// NextTimeout returns when HandleTimeout is due.
func (q *QP) NextTimeout() monotime.Time {
	r := &q.req
	at := min(r.timer, r.rnrTimer, r.paced, q.Rate.Due(), r.board.due)
	if q.away.due != 0 {
		at = min(at, q.away.due)
	}
	if q.resp.rate != nil {
		at = min(at, q.resp.rate.limit.Due())
	}
	return at
}

// HandleTimeout acts on timers that have come due.
func (q *QP) HandleTimeout(now monotime.Time) {
	q.now = now
	if q.away.due != 0 {
		q.resume()
		q.tellGap()
	}
	if !now.Before(q.req.rnrTimer) {
		q.req.rnrTimer = monotime.Never
	}
	if !now.Before(q.req.paced) {
		q.req.paced = monotime.Never
	}
	q.Rate.HandleTimeout(now)
	if q.resp.rate != nil {
		q.resp.rate.limit.HandleTimeout(now)
	}
	if !now.Before(q.req.board.due) {
		q.judge(now)
	}
	if !now.Before(q.req.timer) {
		q.handleAckTimeout(now)
	}
}
