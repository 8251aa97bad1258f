// SPDX-License-Identifier: BSD-2-Clause

package rdma

import (
	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/ntb/channel"
	"verbena/internal/qp"
)

// QP is a reliable connected queue pair on a node.
type QP struct {
	qp.Core
	Count [NumCounters]uint64

	node *Node
	far  *far // its far half, while it is announced

	req  requester
	resp responder

	server  *rqp // that executed requests for it last
	opened  *rqp // whose WRITEs may go straight to our regions
	closing int  // QP_GRANTs under way that take such a right back
	lost    bool // the link went down with such a right

	retryAt monotime.Time // when to announce or to send again
	queued  bool          // in node.ready
	gone    bool          // destroyed
	told    bool          // in node.told
}

// NewQP makes a queue pair, in RESET. Its number must be the only one of the
// node.
func (n *Node) NewQP(c qp.Config) *QP {
	if n.byQPN[c.QPN] != nil {
		panic("ntb: two queue pairs of one number")
	}
	q := &QP{Core: qp.NewCore(c), node: n, retryAt: monotime.Never}
	q.clear()
	n.byQPN[c.QPN] = q
	n.qps = append(n.qps, q)
	return q
}

// Destroy takes the queue pair away. Its work makes no more completions.
func (q *QP) Destroy(now monotime.Time) {
	n := q.node
	q.gone = true
	q.leave()
	q.regrant()
	delete(n.byQPN, q.QPN)
	for i, x := range n.qps {
		if x == q {
			n.qps = append(n.qps[:i], n.qps[i+1:]...)
			break
		}
	}
}

// clear forgets the connection.
func (q *QP) clear() {
	q.req = requester{cur: q.SQ.Head()}
	q.resp = responder{}
	q.retryAt = monotime.Never
}

// Query fills the attributes that the queue pair owns.
func (q *QP) Query(attr *ib.QPAttr) {
	*attr = q.Attr
	attr.State, attr.CurState = q.State(), q.State()
	attr.SQDraining = q.State() == ib.QPSQD && !q.drained()
}

// Modify applies a legal modification.
func (q *QP) Modify(now monotime.Time, a *ib.QPAttr, mask ib.QPAttrMask) {
	q.SetAttributes(a, mask)
	if mask&ib.QPStateAttr != 0 && a.State != q.State() {
		q.modifyState(now, a.State)
	}
	q.regrant()
}

func (q *QP) modifyState(now monotime.Time, to ib.QPState) {
	switch to {
	case ib.QPReset:
		q.leave()
		q.Reset()
		q.clear()
		return
	case ib.QPErr:
		q.enterError()
		return
	}
	q.Enter(to)
	switch to {
	case ib.QPRTS:
		q.req.refill(&q.Attr)
	case ib.QPSQD:
		q.req.drainRaised = false
		q.checkDrained()
	}
	q.announce(now)
	q.node.kick(q)
}

// retry has HandleTimeout announce the queue pair, or send, again.
func (q *QP) retry(at monotime.Time) {
	q.retryAt = at
	q.node.wake = min(q.node.wake, at)
}

// NextTimeout returns when HandleTimeout is due. Node.NextTimeout knows it of
// all its queue pairs.
func (q *QP) NextTimeout() monotime.Time { return q.retryAt }

// HandleTimeout makes waiting work be announced or sent again.
func (q *QP) HandleTimeout(now monotime.Time) {
	if q.retryAt != monotime.Never && !now.Before(q.retryAt) {
		q.retryAt = monotime.Never
		q.announce(now)
		q.node.kick(q)
	}
}

// AppendCounts appends the queue pair's counts.
func (q *QP) AppendCounts(counts []uint64) []uint64 { return append(counts, q.Count[:]...) }

// Doorbell handles posted work. In the error state it is flushed.
func (q *QP) Doorbell(now monotime.Time) {
	if q.State() == ib.QPErr {
		q.FlushSends()
		q.FlushRecvs()
		q.req.cur = q.SQ.Head()
		return
	}
	q.node.kick(q)
}

// enterError flushes all work. The caller has completed the request that failed.
func (q *QP) enterError() {
	if q.State() == ib.QPErr {
		return
	}
	q.leave()
	q.Enter(ib.QPErr)
	q.Flush()
	q.tell()
	q.clear()
	q.regrant()
}

// fail is enterError with word to the application of why.
func (q *QP) fail(e ib.EventType) {
	if q.State() != ib.QPErr {
		q.Raise(e)
		q.tell()
	}
	q.enterError()
}

// linkDown flushes the queue pair if it was connected. In INIT it stays as it
// is: nobody knew it.
func (q *QP) linkDown(now monotime.Time) {
	q.lost = q.lost || q.opened != nil
	q.far, q.opened, q.server = nil, nil, nil
	switch q.State() {
	case ib.QPRTR, ib.QPRTS, ib.QPSQD:
		q.Blame(ib.VendorPeerGone)
		q.fail(ib.EventQPFatal)
	default:
		q.retryAt = monotime.Never
	}
}

// handleFault: memory of a request is not mapped any more. The oldest work
// request that is on its way is taken to be the one.
func (q *QP) handleFault(now monotime.Time) {
	if q.State() == ib.QPErr || q.SQ.Len() == 0 {
		return
	}
	q.CompleteSend(q.SQ.At(0), ib.WCLocProtErr, ib.VendorFault)
	q.SQ.PopFront()
	q.fail(ib.EventQPFatal)
}

// receives reports whether the queue pair executes requests of the peer's.
func (q *QP) receives() bool {
	s := q.State()
	return s == ib.QPRTR || s == ib.QPRTS || s == ib.QPSQD
}

// sends reports whether it may send.
func (q *QP) sends() bool {
	s := q.State()
	return (s == ib.QPRTS || s == ib.QPSQD) && q.far != nil && q.far.state == farConnected &&
		q.node.ch.State() == channel.Up
}
