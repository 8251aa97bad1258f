// SPDX-License-Identifier: BSD-2-Clause

package uc

import (
	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/roce"
	wire "verbena/internal/wire/roce"
)

// QP is the protocol state of one unreliable connected queue pair.
type QP struct {
	roce.Core
	req  requester
	resp responder
}

var _ roce.Machine = (*QP)(nil)

// New returns a queue pair in the RESET state.
func New(c roce.Config) *QP { return &QP{Core: roce.NewCore(c)} }

// Query fills the attributes that the queue pair owns.
func (q *QP) Query(attr *ib.QPAttr) {
	*attr = q.Attr
	attr.State, attr.CurState = q.State(), q.State()
	attr.SQPSN, attr.RQPSN = q.req.psn, q.resp.epsn
	attr.SQDraining = q.State() == ib.QPSQD && q.req.midway
}

// Modify applies a legal modification.
func (q *QP) Modify(now monotime.Time, a *ib.QPAttr, mask ib.QPAttrMask, path *roce.Path) {
	if mask&ib.QPRQPSN != 0 {
		q.resp.epsn, q.resp.in = a.RQPSN, inNone
	}
	q.ModifySending(a, mask, path, &q.req.psn, q.setState)
}

// setState enters a state that the object layer chose.
func (q *QP) setState(s ib.QPState) {
	q.Enter(s)
	switch s {
	case ib.QPReset:
		q.Reset()
		*q = QP{Core: q.Core}
	case ib.QPSQD:
		if !q.req.midway {
			q.SQDrained()
		}
	case ib.QPErr:
		q.Flush()
	}
}

// HandleInput takes one packet for this queue pair whose ICRC is right.
func (q *QP) HandleInput(now monotime.Time, p *wire.Packet, m *roce.Meta) {
	expected := q.MayMigrate() && roce.Near(p.PSN, q.resp.epsn, mostMissed)
	if !q.Admit(p, m, wire.ServiceUC, expected) {
		return
	}
	if q.State() == ib.QPErr {
		q.Count[roce.DroppedState]++
		return
	}
	q.Established()
	q.handleRequest(p)
}

// mostMissed bounds how many packets the path may lose for one by the alternate path to be
// followed: a gigabyte in packets of 1,024 bytes.
const mostMissed = 1 << 20

// Doorbell handles posted work.
func (q *QP) Doorbell(now monotime.Time) { q.FlushPosted() }

// PollOutput fills b with the next burst.
func (q *QP) PollOutput(now monotime.Time, b *roce.Burst) bool {
	q.pollRequests(now, b)
	q.Sent(b)
	return b.Len() > 0
}

// NextTimeout returns when the limit of the rate lets the next packet go.
func (q *QP) NextTimeout() monotime.Time { return q.Rate.Due() }

// HandleTimeout lets the packet go that the limit of the rate held.
func (q *QP) HandleTimeout(now monotime.Time) { q.Rate.HandleTimeout(now) }
