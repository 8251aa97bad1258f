// SPDX-License-Identifier: BSD-2-Clause

package rc

import (
	"verbena/ib"
	"verbena/internal/monotime"
)

// Memory that two processes share tells more than a network can: whether the peer's process lives,
// and whether it has come to the packets sent. The caller that knows so asks before a timer comes
// due, and puts off vain retransmissions.

// ACKTimer returns when HandleTimeout will act on an acknowledgement that has not
// come, Never if none is waited for.
func (q *QP) ACKTimer() monotime.Time { return q.req.timer }

// PutOff sets ACKTimer anew: the peer's process lives. If it has not come to the packets sent,
// because it is stopped or has no processor, the local ACK time-out begins again. Nothing is
// repeated, and no retry is spent. Otherwise the wait is no longer than that time-out, however far
// the round trip's has backed off.
func (q *QP) PutOff(now monotime.Time, behind bool) {
	l := &q.req.loss
	l.near = true
	if behind {
		q.Postpone(now)
		return
	}
	wait := q.probeWait()
	if t := ackTimeout(q.Attr.Timeout); t != 0 {
		wait = min(wait, t)
	}
	q.req.timer = now.Add(wait)
}

// Postpone begins the local ACK time-out again: nothing is repeated, and no retry is spent.
func (q *QP) Postpone(now monotime.Time) {
	l := &q.req.loss
	l.timing = false // such a round trip says nothing
	l.RTT.BackOff()
	if l.ackDeadline != monotime.Never {
		l.ackDeadline = now.Add(ackTimeout(q.Attr.Timeout))
	}
	q.req.timer = now.Add(l.RTT.Timeout())
}

// PeerGone ends a queue pair that has work for a process that has ended. One without
// stays as it is, as with an adapter, until it has some.
func (q *QP) PeerGone(now monotime.Time) {
	if s := q.State(); s != ib.QPRTS && s != ib.QPSQD {
		return
	}
	q.nextWQE(now) // local operations before the first one for the peer
	s := q.State()
	if q.SQ.Len() > 0 && (s == ib.QPRTS || s == ib.QPSQD && q.req.una != q.req.max) {
		q.failOldest(now, ib.WCRetryExcErr, ib.VendorPeerGone)
	}
}
