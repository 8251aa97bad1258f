// SPDX-License-Identifier: BSD-2-Clause

package rc

import (
	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/roce"
	wire "verbena/internal/wire/roce"
)

// migrated tells the peer, which follows, and begins on the new path.
func (q *QP) migrated(now monotime.Time) {
	if q.serves && q.State() != ib.QPErr {
		q.oweAck(q.resp.epsn.Prev())
	}
	q.beginPath(now)
}

// beginPath repeats by a new path all that is outstanding, with all retries. Nothing is known of
// that path.
func (q *QP) beginPath(now monotime.Time) {
	r, l := &q.req, &q.req.loss
	r.retries, r.rnrRetries, r.overdue = q.Attr.RetryCnt, q.Attr.RNRRetry, 0
	*l = recovery{
		delivered: l.delivered, roundStart: l.delivered, roundEnd: r.max, near: l.near,
		ackDeadline: l.ackDeadline, probeAt: l.probeAt,
	}
	l.Start(q.Congestion)
	r.paced, r.probing, r.probed = monotime.Never, false, false
	if r.una == r.max || q.State() == ib.QPErr || r.rnrTimer != monotime.Never {
		return
	}
	q.goBack(r.una)
	r.collapse(now, q.MTU)
	q.armTimer(now)
}

// expects reports whether a packet by the alternate path may be the peer's: its PSN is near those
// expected. Only such a one makes the queue pair follow.
func (q *QP) expects(p *wire.Packet) bool {
	switch r := &q.req; {
	case p.Opcode == wire.CNP:
		return false
	case p.Info.Response: // the newest acknowledgement may come again
		return q.sends && !p.PSN.Before(r.una.Prev()) && p.PSN.Before(r.max)
	}
	return q.serves && roce.Near(p.PSN, q.resp.epsn, maxKept)
}
