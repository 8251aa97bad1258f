// SPDX-License-Identifier: BSD-2-Clause

package rc

import (
	"verbena/ib"
	"verbena/internal/congestion"
	"verbena/internal/monotime"
	"verbena/internal/roce"
	"verbena/internal/rtt"
)

// recovery is the part of the requester that the peer never sees: how much may
// be outstanding and when to try again.
type recovery struct {
	congestion.Window
	delivered int // bytes acknowledged, of all time, with headers
	// one round trip is measured at a time, of a packet that was sent once, or of a first copy
	timing         bool
	againAt        monotime.Time // when the timed packet was last sent again, or to be
	timedPSN       ib.PSN
	timedAt        monotime.Time
	timedDelivered int
	disturbed      bool          // something was lost since timedAt, or a first copy is timed
	since          monotime.Time // of the first packet, and then of the newest progress
	// The PSNs before recovered were outstanding at the last loss that counted. Those lost
	// among them are of the same queue, or of the same chance.
	recovering bool
	recovered  ib.PSN
	// packets lost since roundStart bytes were delivered, until roundEnd has arrived
	roundEnd   ib.PSN
	roundLost  int // packets
	roundStart int
	chance     chance
	// the last time a NAK sent us back, and whither
	wentBack    bool
	copied      bool // backPSN was sent again since
	backPSN     ib.PSN
	backAt      monotime.Time
	probeAt     monotime.Time // when to retransmit on our own account
	ackDeadline monotime.Time // the local ACK time-out; Never if none runs
	near        bool          // the peer is on this host, and its process lives
}

// minWindow is the least that a loss leaves of the window. Where the network marks packets it is
// one packet: many flows may share such a switch.
const minWindow = 8 << 10

func (l *recovery) leastWindow(mtu int) int {
	if l.Marks() {
		return mtu + headerBytes
	}
	return max(minWindow, 2*mtu)
}

func (l *recovery) start(a congestion.Algorithm) {
	*l = recovery{ackDeadline: monotime.Never, againAt: monotime.Never,
		chance: chance{good: 2 * congestion.InitialWide}}
	l.Start(a)
}

// sent notes a packet sent for the first time, which asks for an acknowledgement, or the
// first of its responses, while una is the oldest. It may be a first copy instead. The one timed is
// not the oldest if there is another: a time-out repeats that. Nor does it leave with a copy of the
// last one: the queue that dropped that may have room for one packet again, and for no second.
func (l *recovery) sent(now monotime.Time, psn, una ib.PSN, isCopy bool) {
	if l.since == 0 {
		l.since = now
	}
	if now == l.againAt && !isCopy {
		return
	}
	if !l.timing || l.timedPSN == una && l.timedAt == now {
		l.timing, l.timedPSN, l.timedAt = true, psn, now
		l.timedDelivered, l.disturbed = l.delivered, isCopy
	}
}

// again notes that the PSNs from first to before end are sent once more, or will be. Karn: answers
// to them measure no round trip.
func (l *recovery) again(now monotime.Time, first, end ib.PSN) {
	if l.timing && !l.timedPSN.Before(first) && l.timedPSN.Before(end) {
		l.timing, l.againAt = false, now
	}
}

// acked takes note of n bytes of r's that have arrived.
func (l *recovery) acked(now monotime.Time, r *requester, n int) {
	if n > 0 {
		l.wentBack = false
	}
	l.delivered += n
	if l.recovering && !r.una.Before(l.recovered) {
		l.recovering = false
	}
	if l.timing && r.answered(l.timedPSN) {
		l.timing = false
		took, least := now.Sub(l.timedAt), monotime.Duration(0)
		if l.disturbed {
			least = l.RTT.Shortest
		}
		if took >= least*7/8 {
			l.Sample(now, max(took, least), l.delivered-l.timedDelivered, !l.disturbed)
			l.chance.sample(max(took, least))
		}
	}
	if n > 0 {
		l.guess(now)
		l.since = now
	}
	l.Acked(now, n)
}

// guess takes the time since the last progress for the round trip, where each packet was repeated
// before an answer could come: time-outs would never end.
//
// Deviation: RFC 6298, section 3 (Karn). This is too long at worst, and later round trips mend it.
func (l *recovery) guess(now monotime.Time) {
	if l.RTT.Smoothed == 0 && l.RTT.Backoffs() > fewBackoffs {
		l.RTT.Sample(min(now.Sub(l.since), rtt.Most))
	}
}

// lost shrinks the window after going back, once for all that is outstanding. On a long path a loss
// by chance leaves it, or restores it, and a loss in a queue leaves 7/8 where few are lost.
func (r *requester) lost(now monotime.Time, mtu int) {
	l := &r.loss
	l.disturbed = true
	packet := mtu + headerBytes
	cause := l.chance.lost(l.delivered, packet, l.Bytes()/packet, l.RTT.Shortest,
		l.RTT.Variation)
	l.WentBack(now, r.foreign())
	if l.recovering {
		return
	}
	l.recovering, l.recovered = true, r.max
	least := l.leastWindow(mtu)
	if l.Long() {
		least = max(least, l.chance.window(cause, l.Bytes()))
	}
	l.Lost(now, least)
}

// collapse leaves a few packets in flight after a time-out: if the first is lost, too, the
// next shows it. After several time-outs in a row it leaves one packet. The path may be long,
// and its round trip is only learnt if the timed packet is not sent again.
func (r *requester) collapse(now monotime.Time, mtu int) {
	l := &r.loss
	l.disturbed, l.recovering, l.recovered = true, true, r.max
	least := l.leastWindow(mtu)
	left := least
	if l.RTT.Smoothed == 0 || l.RTT.Backoffs() > fewBackoffs {
		left = 2*mtu - 1 // one with its headers, and two once that is acknowledged
	}
	l.Expired(now, least, left)
}

// fewBackoffs is the number of time-outs in a row after which the path may have become longer.
const fewBackoffs = 2

// mayGoBack reports whether a NAK for psn is news. A duplicate of one acted on within a round trip
// would only repeat packets that are on their way.
func (l *recovery) mayGoBack(now monotime.Time, psn ib.PSN) bool {
	if l.wentBack && l.backPSN == psn &&
		now.Sub(l.backAt) < max(2*l.RTT.Smoothed, 50*monotime.Microsecond) {
		return false
	}
	l.wentBack, l.copied, l.backPSN, l.backAt = true, false, psn, now
	return true
}

// missed reports whether the newest NAK said that psn is missing.
func (l *recovery) missed(psn ib.PSN) bool { return l.wentBack && l.backPSN == psn }

// firstCopy notes that psn is sent again, and reports whether it is so for the first time since a
// NAK said that it is missing. The responder has answered no packet of this PSN before, unless the
// network is late. So the copy is timed like a new packet, but never shortens the round trip.
func (l *recovery) firstCopy(psn ib.PSN) bool {
	first := l.missed(psn) && !l.copied
	l.copied = l.copied || first
	return first
}

// goBack makes psn the next to send. Answers to earlier packets still count when they come. Before
// psn only responses are missing.
func (q *QP) goBack(psn ib.PSN) {
	r := &q.req
	if e := r.executed(); e.After(r.known) {
		r.known = e
	}
	r.board.cut(psn)
	r.probing, r.probed = false, false
	q.seek(psn)
}

// seek puts the sending position at psn, which is in [una, max].
func (q *QP) seek(psn ib.PSN) {
	r := &q.req
	r.next, r.off = psn, 0
	for r.cur = q.SQ.Head(); r.cur < q.SQ.Tail(); r.cur++ {
		w := q.SQ.AtAbs(r.cur)
		if w.State == wqePosted || w.State == wqeFailed {
			return
		}
		if w.State == wqeSent && !psn.After(w.LastPSN) {
			if psn.After(w.FirstPSN) {
				r.off = uint32(psn.Diff(w.FirstPSN)) * uint32(q.MTU)
			}
			return
		}
	}
}

// armTimer sets the timer for outstanding packets, or stops it.
func (q *QP) armTimer(now monotime.Time) {
	r := &q.req
	if r.una == r.max || q.State() == ib.QPErr || r.rnrTimer != monotime.Never {
		r.timer, r.loss.ackDeadline = monotime.Never, monotime.Never
		return
	}
	r.loss.ackDeadline = monotime.Never
	if d := ackTimeout(q.Attr.Timeout); d != 0 {
		r.loss.ackDeadline = now.Add(d)
	}
	q.setTimer(now)
}

func (q *QP) setTimer(now monotime.Time) {
	l := &q.req.loss
	l.probeAt = now.Add(q.probeWait())
	q.req.timer = min(l.probeAt, l.ackDeadline)
}

// probeSooner brings the probe forward: the queue has ended, and an earlier burst set the timer for
// the time-out.
func (q *QP) probeSooner(now monotime.Time) {
	l := &q.req.loss
	l.probeAt = min(l.probeAt, now.Add(q.probeWait()))
	q.req.timer = min(l.probeAt, l.ackDeadline)
}

// probeWait returns how long to wait for an acknowledgement before a packet is sent again. Any
// packet to a foreign responder is treated as the newest: such a responder sends one NAK for a gap,
// and is silent if the NAK or the repeated packet is lost.
func (q *QP) probeWait() monotime.Duration {
	l := &q.req.loss
	wait := l.RTT.Timeout()
	if q.req.cur == q.SQ.Tail() || q.req.foreign() {
		wait = l.ProbeWait()
	}
	if d := ackTimeout(q.Attr.Timeout) / probesPerTimeout; wait > d && d > 0 &&
		l.RTT.Smoothed != 0 {
		wait = min(wait, max(d, l.RTT.Due()))
	}
	return wait
}

// probesPerTimeout bounds the back-off: a packet is sent again at least so often per local ACK
// time-out, once the path's round trip is known. Loss alone is not to use up retry_cnt.
const probesPerTimeout = 4

// ackTimeout returns how long the requester waits until the local ACK time-out
// T = 4.096 µs × 2^t takes one of retry_cnt, 0 for ever. It may be anything from T
// to 4 T and is drawn out to 4 T: an adapter answers always, a peer's process only
// when it has a processor.
//
// Spec: IBTA vol. 1, 9.7.6.1.3 (C9-140 to C9-142).
func ackTimeout(t uint8) monotime.Duration {
	if t == 0 {
		return 0
	}
	return 4 * 4096 * monotime.Nanosecond << (t & 31)
}

// handleAckTimeout retransmits from the oldest packet: on our own account
// while the local ACK time-out runs, against retry_cnt when it expires.
func (q *QP) handleAckTimeout(now monotime.Time) {
	r := &q.req
	r.timer = monotime.Never
	if r.una == r.max {
		return
	}
	expired := !now.Before(r.loss.ackDeadline)
	if q.heldBack() {
		if expired {
			r.loss.ackDeadline = q.Rate.Due().Add(ackTimeout(q.Attr.Timeout))
		}
		r.loss.probeAt = q.Rate.Due().Add(q.probeWait())
		r.timer = min(r.loss.probeAt, r.loss.ackDeadline)
		return
	}
	if expired {
		q.Count[roce.LocalACKTimeout]++
		v := ib.VendorTimeout
		if r.loss.near {
			v = ib.VendorSilent
		}
		if !q.spendRetry(now, v) {
			return
		}
		r.loss.ackDeadline = now.Add(ackTimeout(q.Attr.Timeout))
		if now.Before(r.loss.probeAt) && r.loss.RTT.Due() > ackTimeout(q.Attr.Timeout) {
			// The answer may be on its way. But a round trip that began with losses is shorter.
			r.probing = true
			r.timer = min(r.loss.probeAt, r.loss.ackDeadline)
			return
		}
	} else {
		q.Count[roce.TailProbe]++
	}
	first := r.loss.RTT.Backoffs() == 0 || r.unanswered()
	r.loss.RTT.BackOff()
	if first && !expired && (r.board.inUse() || r.mayProbe()) {
		r.board.loseAll()
		r.probing = r.mayProbe()
		q.setTimer(now)
		return
	}
	q.Count[roce.Lost]++
	q.goBack(r.una)
	r.collapse(now, q.MTU)
	q.setTimer(now)
}

// heldBack reports whether a packet is to be repeated and waits for the limit of the rate: the peer
// has nothing to answer.
func (q *QP) heldBack() bool {
	r := &q.req
	return q.Rate.Held() &&
		(r.probing || r.next == r.una || r.board.inUse() && r.board.holes[0].lost)
}

// sendProbe repeats the newest packet, asking for an acknowledgement. A peer
// that was merely late acknowledges everything; one that misses something says
// from where with a NAK. Either way nothing is sent twice in vain. Of a READ that is known to have
// been carried out only the last response is asked for: so there is no probe of READs if the
// responder may not be one of Verbena. See handleData.
//
// A foreign responder may have sent its one NAK, and be silent until the expected packet comes. So
// the oldest packet goes first. It has the responder answer the newest. Before the first answer the
// responder may be a foreign one, too. The second probe has the oldest packet then, and of READs
// each has that alone.
//
// Source: RFC 8985, section 7 (tail loss probe).
func (q *QP) sendProbe(now monotime.Time, b *roce.Burst) {
	r := &q.req
	if r.una == r.max { // answered meanwhile
		r.probing, r.probed = false, false
		return
	}
	if q.Rate.Holds(now) {
		return
	}
	cur, off, next := r.cur, r.off, r.next
	at := r.probe()
	again := r.unanswered() && r.loss.RTT.Backoffs() > 1 && !r.board.inUse()
	both := (r.foreign() || again) && r.una != at
	if both && !r.probed {
		r.probed = q.repeat(now, r.una, b)
	}
	sent := (r.probed || !both) && !q.Rate.Holds(now) && q.repeat(now, at, b)
	if s := q.State(); s != ib.QPRTS && s != ib.QPSQD {
		return // the work request failed, and all with it
	}
	r.probing = !sent && (b.Len() > 0 || b.Refused() || q.Rate.Held())
	r.probed = r.probed && r.probing
	r.cur, r.off, r.next = cur, off, next
}

// probe returns the packet that sendProbe repeats in any case: the oldest where the newest brings
// no news, or cannot be sent any more.
func (r *requester) probe() ib.PSN {
	if r.blocked || !r.mayProbe() || r.unanswered() && len(r.reads) > 0 {
		return r.una
	}
	at := r.max.Prev()
	if i := r.readOf(at); i >= 0 && !r.reads[i].first.Before(r.executed()) {
		return r.reads[i].first
	}
	return at
}

// mayProbe reports whether the answer to sendProbe may bring news: the newest packet is not known
// to have arrived.
func (r *requester) mayProbe() bool {
	if r.board.inUse() && r.board.upper == r.max {
		return false
	}
	return (r.next == r.max || r.foreign()) && (r.own || len(r.reads) == 0 || r.unanswered())
}

// unanswered reports whether no round trip is known. The path may be longer than the time-outs:
// going back would repeat all that is on its way, and nothing would measure the path any more.
func (r *requester) unanswered() bool { return r.loss.RTT.Smoothed == 0 }

// foreign reports whether the responder is known not to be one of Verbena.
func (r *requester) foreign() bool { return !r.own && r.loss.RTT.Smoothed != 0 }

// repeat adds the packet of psn to the burst and moves the sending position. It reports whether it
// did.
func (q *QP) repeat(now monotime.Time, psn ib.PSN, b *roce.Burst) bool {
	if q.seek(psn); q.req.cur == q.SQ.Tail() {
		return false
	}
	w := q.SQ.AtAbs(q.req.cur)
	return w.State == wqeSent && q.sendPacket(now, w, b)
}

// spendRetry takes one of retry_cnt. When none is left it begins on the alternate path, or ends the
// queue pair without one. It reports whether the caller has anything left to do.
//
// Spec: IBTA vol. 1, 9.9.2.4.1 (retry counters), 17.2.8.
func (q *QP) spendRetry(now monotime.Time, v ib.VendorErr) bool {
	r := &q.req
	if r.retries == 0 && q.Migrate() {
		q.beginPath(now)
		return false
	}
	if r.retries == 0 {
		q.failOldest(now, ib.WCRetryExcErr, v)
		return false
	}
	r.retries--
	return true
}
