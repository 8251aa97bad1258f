// SPDX-License-Identifier: BSD-2-Clause

package rc

import (
	"slices"

	"verbena/ib"
	"verbena/internal/congestion"
	"verbena/internal/monotime"
	"verbena/internal/roce"
	wire "verbena/internal/wire/roce"
)

// Selective repeat of requests goes between two queue pairs of Verbena. A requester sets
// BTH.Selective, a bit that is reserved and that others ignore. A responder answers a gap before
// such a request by a SelectiveAcknowledge instead of a NAK. So nothing is agreed beforehand, and a
// foreign end sees go-back-N as ever.
//
// Responses of READs and atomics are placed in whatever order they come, and those that are missing
// asked for again. Any responder answers a part of a READ that it has carried out.
//
// Spec: IBTA vol. 1, 9.7.5.1.4 (implied NAK) and 9.7.4.3 (duplicate READ).

// maxSACK bounds the bytes of a SACK, as does the path MTU. A gap takes two or more. Gaps that do
// not fit are told of by the next SACK.
const maxSACK = 1024

// oweSack schedules a SelectiveAcknowledge, which lists the PSNs that are missing when it is sent.
// It goes behind all pending responses: it says that they were sent.
func (q *QP) oweSack() {
	r := &q.resp
	isSack := func(o response) bool { return o.kind == respSack }
	r.out = slices.DeleteFunc(r.out, isSack)
	q.owe(response{kind: respSack, psn: r.epsn})
}

// sendSack sends a SelectiveAcknowledge, unless nothing is missing any more.
func (q *QP) sendSack(b *roce.Burst) bool {
	r := &q.resp
	if q.away.cur != nil || q.away.due != 0 {
		q.away.gap = true
		return true
	}
	if r.kept.count == 0 {
		return true
	}
	var memory [maxSACK]byte
	payload := r.kept.appendSack(memory[:0:min(maxSACK, q.MTU)], r.epsn)
	h := q.BTH(wire.SelectiveAcknowledge, r.epsn)
	h.Pad = wire.PadBytes(len(payload))
	if !b.Begin(q.Path, wire.BTHBytes+len(payload)+int(h.Pad)+wire.ICRCBytes, h) {
		return false
	}
	b.Copy(payload)
	b.End()
	q.Count[roce.SentSACK]++
	return true
}

// appendSack appends a SACK of the missing PSNs. epsn is the expected PSN.
func (k *kept) appendSack(b []byte, epsn ib.PSN) []byte {
	k.expect(epsn)
	first := 0
	for k.partly && first < len(k.gaps) && k.gaps[first].First.Before(k.told) {
		first++
	}
	if first == len(k.gaps) {
		first = 0
	}
	s := wire.SACK{From: k.gaps[first].First, Upper: k.end, Gaps: k.gaps[first:]}
	b, n := s.Append(b, epsn)
	if k.partly = n < len(s.Gaps); k.partly {
		k.told = s.Gaps[n].First
	}
	return b
}

// handleSack learns from a SACK which packets the responder has, and which it misses.
func (q *QP) handleSack(now monotime.Time, p *wire.Packet) {
	r := &q.req
	s, ok := wire.ParseSACK(p.Payload, p.PSN, r.board.gaps[:0])
	if !ok || s.Upper.After(r.max) {
		q.Count[roce.BadResponse]++
		return
	}
	q.Count[roce.RcvdSACK]++
	r.board.gaps = s.Gaps
	if p.PSN.Before(r.executed()) {
		q.Count[roce.StaleAck]++
		return
	}
	q.executedBefore(now, p.PSN)
	before := r.unknown()
	r.board.merge(now, p.PSN, s, r.loss.RTT.Shortest)
	if !r.board.inUse() {
		return
	}
	q.stopGoingBack(now)
	r.countKept()
	r.board.suspect(s)
	q.judge(now)
	if n := before - r.unknown(); n > 0 {
		r.loss.acked(now, r, n*q.packetBytes())
		if r.rnrTimer == monotime.Never { // else no timer runs, nor the local ACK time-out
			q.setTimer(now)
		}
	}
	if s.Upper.After(r.board.newest) { // the peer answers packets that it had not answered before
		r.board.newest = s.Upper
		r.retries = q.Attr.RetryCnt
		q.armTimer(now)
	}
	q.endRound(now)
}

// stopGoingBack has only those repeated that are lost, where something has arrived beyond the PSN
// to which the requester has gone back.
func (q *QP) stopGoingBack(now monotime.Time) {
	r := &q.req
	if back := r.next; back != r.max && r.board.upper.After(back) {
		q.seek(r.max)
		r.board.lose(now, back, r.max)
	}
}

// executedBefore takes note that the responder has carried out all requests before end, and has
// answered them.
func (q *QP) executedBefore(now monotime.Time, end ib.PSN) {
	r := &q.req
	if !end.After(r.executed()) {
		return
	}
	if len(r.reads) == 0 || !r.reads[0].first.Before(end) {
		q.progress(now, end)
		return
	}
	if !r.board.inUse() {
		r.board.begin(r.una)
	}
	before := r.unknown()
	q.miss(now, end)
	q.settle(now, before)
}

// came takes note that the responses from first to before end have come.
func (q *QP) came(now monotime.Time, first, end ib.PSN) {
	r := &q.req
	if !r.board.inUse() {
		r.board.begin(r.una)
	}
	before := r.unknown()
	q.miss(now, first)
	r.board.fill(now, first, end, r.loss.RTT.Shortest)
	r.board.pass(end)
	q.settle(now, before)
}

// miss takes note that all requests before end were carried out: the responses of them that have
// not come are missing.
func (q *QP) miss(now monotime.Time, end ib.PSN) {
	r, b := &q.req, &q.req.board
	from := b.executed
	if !end.After(from) {
		return
	}
	b.fill(now, from, end, r.loss.RTT.Shortest) // the requests there have arrived
	at := b.before(end)
	for i := r.readsBefore(from); i < len(r.reads) && r.reads[i].first.Before(end); i++ {
		h := hole{Gap: wire.Gap{First: r.reads[i].first, End: r.reads[i].last.Add(1)},
			suspect: true, at: now}
		if h.First.Before(from) {
			h.First = from
		}
		if h.End.After(end) {
			h.End = end
		}
		b.holes = insert(b.holes, at, h)
		b.missing += h.size()
		if r.loss.RTT.Smoothed != 0 { // the response of a later request measures too much
			r.loss.again(now, h.First, h.End)
		}
		at++
		q.Count[roce.ImpliedNAK]++
		b.suspected = true
	}
	b.pass(end)
}

// settle moves una to the oldest response that is missing, or past all requests that are carried
// out, and finds the lost packets.
func (q *QP) settle(now monotime.Time, before int) {
	r, b := &q.req, &q.req.board
	una := r.una
	r.una = b.executed
	if b.inUse() && b.holes[0].First.Before(b.executed) {
		r.una = b.holes[0].First
	}
	q.stopGoingBack(now)
	r.countKept()
	b.suspectAgain()
	if b.suspected {
		q.judge(now)
	}
	q.progressed(now, before, r.una != una || b.executed.After(r.known))
}

// countKept counts the PSNs of READs that the responder keeps: they are answered later.
func (r *requester) countKept() {
	b := &r.board
	b.kept = 0
	if !b.inUse() || !b.upper.After(b.executed) {
		return
	}
	k := b.before(b.executed)
	for i := r.readsBefore(b.executed); i < len(r.reads) && r.reads[i].last.Before(b.upper); i++ {
		e := wire.Gap{First: r.reads[i].first, End: r.reads[i].last.Add(1)}
		if e.First.Before(b.executed) {
			e.First = b.executed
		}
		b.kept += int(e.End.Diff(e.First))
		for ; k < len(b.holes) && b.holes[k].First.Before(e.End); k++ {
			b.kept -= b.holes[k].overlap(e)
			if b.holes[k].End.After(e.End) {
				break
			}
		}
	}
}

// unknown returns how many PSNs were sent and are not known to have arrived.
func (r *requester) unknown() int {
	if b := &r.board; b.inUse() {
		return int(r.max.Diff(b.upper)) + b.missing + b.kept
	}
	return int(r.max.Diff(r.una))
}

// outstanding returns how many PSNs are under way, as far as is known.
func (r *requester) outstanding() int {
	if r.board.inUse() {
		next := r.next
		if r.filling {
			next = r.resume
		}
		return r.unknown() - r.board.lost - int(r.max.Diff(next))
	}
	return int(r.next.Diff(r.una))
}

// has reports whether the response to psn, or an acknowledgement of it, has arrived.
func (r *requester) has(psn ib.PSN) bool {
	b := &r.board
	return psn.Before(r.una) || b.inUse() && psn.Before(b.executed) && !b.has(psn)
}

// answered reports whether a request that was sent is known to have arrived. That of a READ is
// where any response shows it.
func (r *requester) answered(psn ib.PSN) bool {
	b := &r.board
	return psn.Before(r.executed()) ||
		b.inUse() && psn.Before(b.upper) && !b.has(psn) && r.readOf(psn) < 0
}

// judge decides which missing packets are lost.
func (q *QP) judge(now monotime.Time) {
	r := &q.req
	since := r.una
	if r.loss.recovering {
		since = r.loss.recovered
	}
	r.board.judge(now, r.loss.RTT.Shortest, func(h *hole) {
		n := r.packets(h)
		q.Count[roce.Lost] += uint64(n)
		if !h.First.Before(since) {
			r.loss.roundLost += n
		}
	})
}

// packets returns how many packets are missing with a hole: a READ request is one. That is lost
// where all its responses are missing, unless the network marks: READs are short then, and a full
// queue drops whole ones.
func (r *requester) packets(h *hole) int {
	n := h.size()
	if i := r.readOf(h.First); h.First.Before(r.board.executed) {
		if i < 0 || r.loss.Marks() {
			return n
		}
		if r.reads[i].first == h.First && r.reads[i].last == h.End.Prev() {
			return 1
		}
		return n
	}
	for i := r.readsBefore(h.First); i < len(r.reads) && r.reads[i].first.Before(h.End); i++ {
		n -= int(r.reads[i].last.Diff(r.reads[i].first))
	}
	return max(n, 1)
}

// endRound adapts the window to the losses of a round trip.
func (q *QP) endRound(now monotime.Time) {
	r := &q.req
	l, top := &r.loss, r.executed()
	if r.board.inUse() && r.board.kept == 0 {
		top = r.board.upper
	}
	all := l.roundLost + (l.delivered-l.roundStart)/q.packetBytes()
	enough := q.windowPackets()
	if l.Starts() {
		enough = max(enough, congestion.LeastJudged)
	}
	if top.Before(l.roundEnd) && l.roundLost*congestion.LossTolerance <= enough {
		return
	}
	if l.RoundEnds(now, l.roundLost, all, 1, l.leastWindow(q.MTU)) {
		l.recovering, l.recovered = true, r.max
	}
	l.roundEnd, l.roundLost, l.roundStart = r.max, 0, l.delivered
}

// repeatLost sends lost packets again, as far as the burst, the window and the pace allow. The
// position of new packets stays.
func (q *QP) repeatLost(now monotime.Time, b *roce.Burst) {
	r := &q.req
	cur, off, next := r.cur, r.off, r.next
	r.filling, r.resume = true, next
	for i := 0; r.board.lost > 0 && i < len(r.board.holes); i++ {
		h := &r.board.holes[i]
		if !h.lost {
			continue
		}
		q.seek(h.First)
		first, end := h.First, h.End
		r.fillEnd = end
		for r.next.Before(end) && q.mayRepeat(now, b) {
			w, from := q.SQ.AtAbs(r.cur), r.next
			if w.State == wqeDone {
				r.cur++
				continue
			}
			if w.State != wqeSent || !q.sendPacket(now, w, b) {
				break
			}
			r.loss.Sent(now, int(r.next.Diff(from))*q.packetBytes())
			r.board.lost -= int(r.next.Diff(from))
		}
		if s := q.State(); s != ib.QPRTS && s != ib.QPSQD {
			r.filling = false
			return // the work request failed, and all with it
		}
		if r.next.After(first) {
			r.board.repeated(now, i, r.next, r.max)
		}
		if r.next.Before(end) {
			break
		}
	}
	r.board.count()
	r.filling = false
	r.cur, r.off, r.next = cur, off, next
}

// mayRepeat reports whether the burst, the window and the pace let a packet go again.
func (q *QP) mayRepeat(now monotime.Time, b *roce.Burst) bool {
	r := &q.req
	under := r.outstanding()
	if r.board.inUse() { // responses to READs that the responder keeps are not on their way
		under -= r.board.kept
	}
	if b.Full() || r.cur >= q.SQ.Tail() || under > 0 && under >= q.windowPackets() {
		return false
	}
	if at := r.loss.Pace(now); now.Before(at) {
		r.paced = at
		return false
	}
	return !q.Rate.Holds(now)
}
