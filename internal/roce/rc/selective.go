// SPDX-License-Identifier: BSD-2-Clause

package rc

import (
	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/roce"
	wire "verbena/internal/wire/roce"
)

// Selective repeat of SENDs and WRITEs goes between two queue pairs of Verbena. A requester sets
// BTH.Selective, a bit that is reserved and that others ignore. A responder answers a gap before
// such a request by a SelectiveAcknowledge instead of a NAK. So nothing is agreed beforehand, and a
// foreign end sees go-back-N as ever. While READs or atomics are outstanding the requester goes
// back, too.

// maxSACK bounds the bytes of a SACK, as does the path MTU. A gap takes two or more. Gaps that do
// not fit are told of by the next SACK.
const maxSACK = 1024

// oweSack schedules a SelectiveAcknowledge, which lists the PSNs that are missing when it is sent.
func (q *QP) oweSack() {
	r := &q.resp
	for i := range r.out {
		if r.out[i].kind == respSack {
			return
		}
	}
	q.owe(response{kind: respSack, psn: r.epsn})
}

// sendSack sends a SelectiveAcknowledge, unless nothing is missing any more.
func (q *QP) sendSack(b *roce.Burst) bool {
	r := &q.resp
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
	if len(r.reads) > 0 { // a SACK does not tell of their responses
		nak := *p
		nak.AETH = wire.AETH{Syndrome: wire.NAKPSNSequence}
		q.handleNAK(now, &nak)
		return
	}
	if p.PSN.After(r.una) {
		q.progress(now, p.PSN)
	}
	before, back := r.unknown(), r.next
	r.board.merge(now, p.PSN, s, r.loss.RTT.Shortest)
	if !r.board.inUse() {
		return
	}
	if back != r.max {
		q.seek(r.max)
		r.board.lose(now, back, r.max)
	}
	r.board.suspect(s)
	q.judge(now)
	if n := before - r.unknown(); n > 0 {
		r.loss.acked(now, r, n*q.MTU)
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

// unknown returns how many PSNs were sent and are not known to have arrived.
func (r *requester) unknown() int {
	if b := &r.board; b.inUse() {
		return int(r.max.Diff(b.upper)) + b.missing
	}
	return int(r.max.Diff(r.una))
}

// outstanding returns how many PSNs are under way, as far as is known.
func (r *requester) outstanding() int {
	if r.board.inUse() {
		return r.unknown() - r.board.lost
	}
	return int(r.next.Diff(r.una))
}

// arrived reports whether a PSN that was sent is known to have arrived.
func (r *requester) arrived(psn ib.PSN) bool {
	b := &r.board
	return psn.Before(r.una) || b.inUse() && psn.Before(b.upper) && !b.has(psn)
}

// judge decides which missing packets are lost.
func (q *QP) judge(now monotime.Time) {
	r := &q.req
	since := r.una
	if r.loss.recovering {
		since = r.loss.recovered
	}
	r.loss.roundLost += r.board.judge(now, r.loss.RTT.Shortest, since)
}

// endRound adapts the window to the losses of a round trip.
func (q *QP) endRound(now monotime.Time) {
	r := &q.req
	l, top := &r.loss, r.una
	if r.board.inUse() {
		top = r.board.upper
	}
	if top.Before(l.roundEnd) && l.roundLost*lossTolerance <= q.windowPackets() {
		return
	}
	arrived := (l.delivered - l.roundStart) / q.MTU
	if l.roundLost > 0 && (!l.Long() || l.roundLost*lossTolerance > l.roundLost+arrived) {
		l.Lost(now, max(minWindow, 2*q.MTU))
		l.recovering, l.recovered = true, r.max
	}
	l.roundEnd, l.roundLost, l.roundStart = r.max, 0, l.delivered
}

// lossTolerance is the part of a round trip, 1/8, that may be lost without the window shrinking.
// Where one packet in a hundred is lost whatever is sent, a window that shrinks for each would not
// fill the path.
const lossTolerance = 8

// repeatLost sends lost packets again, as far as the burst, the window and the pace allow. The
// position of new packets stays.
func (q *QP) repeatLost(now monotime.Time, b *roce.Burst) {
	r := &q.req
	cur, off, next := r.cur, r.off, r.next
	for i := 0; r.board.lost > 0 && i < len(r.board.holes); i++ {
		h := &r.board.holes[i]
		if !h.lost {
			continue
		}
		q.seek(h.First)
		first, end := h.First, h.End
		for r.next.Before(end) && q.mayRepeat(now, b) {
			w, from := q.SQ.AtAbs(r.cur), r.next
			if w.State == wqeDone {
				r.cur++
				continue
			}
			if w.State != wqeSent || !q.sendPacket(now, w, b) {
				break
			}
			r.loss.Sent(now, int(r.next.Diff(from))*q.MTU)
			r.board.lost -= int(r.next.Diff(from))
		}
		if s := q.State(); s != ib.QPRTS && s != ib.QPSQD {
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
	r.cur, r.off, r.next = cur, off, next
}

// mayRepeat reports whether the burst, the window and the pace let a packet go again.
func (q *QP) mayRepeat(now monotime.Time, b *roce.Burst) bool {
	r := &q.req
	if b.Full() || r.cur >= q.SQ.Tail() || !q.windowOpen() {
		return false
	}
	if at := r.loss.Pace(); now.Before(at) {
		r.paced = at
		return false
	}
	return true
}
