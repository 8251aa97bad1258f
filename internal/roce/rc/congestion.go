// SPDX-License-Identifier: BSD-2-Clause

package rc

import (
	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/roce"
	wire "verbena/internal/wire/roce"
)

// notifier sends congestion notification packets to the peer.
//
// Spec: IBTA annex A17.9.
type notifier struct {
	of      *roce.Path // the path of other packets
	path    *roce.Path // the same without ECN: no CNP answers a CNP
	pending bool
	pkey    ib.PKey       // of the packet that was marked
	next    monotime.Time // no CNP is sent before
}

// cnpPeriod is the least time between two CNPs of a queue pair: N of DCQCN.
//
// Source: Zhu et al., Congestion Control for Large-Scale RDMA Deployments, SIGCOMM 2015, 3.1.
const cnpPeriod = 50 * monotime.Microsecond

// cnpBytes is the reserved payload of a CNP. Spec: IBTA annex A17.9.3.
const cnpBytes = 16

// handleMark has a packet that was marked on its way answered with a CNP. Where it is a response
// with data, the requester shrinks its window, too: it decides how much is on that way.
func (q *QP) handleMark(now monotime.Time, p *wire.Packet) {
	if p.Info.Response && p.Info.HasPayload {
		q.req.marked(now, q)
	}
	if c := &q.cnp; !now.Before(c.next) && q.State() != ib.QPErr {
		c.pending, c.pkey, c.next = true, p.PKey, now.Add(cnpPeriod)
	}
}

// handleCNP slows what is on the way to the peer, where a packet was marked: requests, and
// responses to a foreign requester. One of Verbena bounds the responses by its own window.
func (q *QP) handleCNP(now monotime.Time) {
	q.Count[roce.RcvdCNP]++
	if q.resp.foreign && q.State() != ib.QPErr {
		q.slowResponses(now)
	}
	if onlyResponses := q.req.una == q.req.max && len(q.resp.saved) > 0; !onlyResponses {
		q.req.marked(now, q)
	}
}

// marked shrinks the window of a queue pair that sends.
func (r *requester) marked(now monotime.Time, q *QP) {
	if q.sends && (q.State() == ib.QPRTS || q.State() == ib.QPSQD) {
		r.loss.Marked(now, q.MTU+headerBytes)
	}
}

// sendCNP fills a burst with the CNP that is pending.
func (q *QP) sendCNP(b *roce.Burst) {
	h := wire.BTH{Opcode: wire.CNP, PKey: q.cnp.pkey, BECN: true, DestQP: q.Attr.DestQPN}
	if q.cnp.of != q.Path {
		q.cnp.of, q.cnp.path = q.Path, q.Path.WithECN(roce.NotECT)
	}
	if !b.Begin(q.cnp.path, wire.BTHBytes+cnpBytes+wire.ICRCBytes, h) {
		return
	}
	q.cnp.pending = false
	var reserved [cnpBytes]byte
	b.Copy(reserved[:])
	b.End()
	q.Count[roce.SentCNP]++
}

// A sender asks for acksPerWindow acknowledgements in a window at least. The window and the
// time-outs depend on them, and the last packet of a window may be lost. On a long path a window is
// held at what the path carries: it is to hold little more for packets that wait for the next
// acknowledgement.
const (
	acksPerWindow     = 8
	acksPerLongWindow = 32
)

// ackEvery returns after how many packets to ask for an acknowledgement, 0 for each.
func (q *QP) ackEvery() int {
	parts := acksPerWindow
	if q.req.loss.Long() {
		parts = acksPerLongWindow
	}
	return min(q.mostUnasked(), q.windowPackets()/parts)
}

// mostUnasked bounds ackEvery, whatever the window. Where packets are paced an acknowledgement is
// asked for eight times a round trip at least, or once a millisecond: DCQCN may let out much less
// than the window in that time.
func (q *QP) mostUnasked() int {
	l := &q.req.loss
	rate := l.Rate()
	if rate == 0 {
		return ackEvery
	}
	every := max(limitedAck, l.RTT.Smoothed/8)
	return min(ackEvery, int(rate*every.Seconds())/q.MTU)
}
