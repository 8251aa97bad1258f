// SPDX-License-Identifier: BSD-2-Clause

package rc

import (
	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/roce"
)

// recovery is the part of the requester that the peer never sees: how much may
// be outstanding and when to try again.
type recovery struct {
	window    int // bytes that may be outstanding
	threshold int // slow start below, one MTU a round trip above
	// What was lost last says how much the way and the peer's socket hold. It is
	// believed for a while.
	ceiling      int // the window stays below
	ceilingUntil monotime.Time
	lossless     bool // nothing was ever lost: above the threshold the window grows faster
	srtt         monotime.Duration
	rttvar       monotime.Duration
	backoff      uint8
	// one round trip is measured at a time
	timing   bool
	timedPSN ib.PSN
	timedAt  monotime.Time
	// the last time a NAK sent us back, and whither
	wentBack    bool
	backPSN     ib.PSN
	backAt      monotime.Time
	ackDeadline monotime.Time // the local ACK time-out; Never if none runs
	near        bool          // the peer is on this host, and its process lives
}

// Window bounds, in bytes. What a socket of ordinary size (net.core.rmem_max of
// 212,992) holds in segmented trains is reached by slow start; many hold more.
// The largest spares a sender to wait while its peer's thread has lost its core
// for some 100 µs at 10 GB/s.
const (
	initialWindow  = 128 << 10
	ordinaryWindow = 320 << 10
	maxWindow      = 2 << 20
	minWindow      = 8 << 10
)

// believeCeiling is how long a loss bounds the window.
const believeCeiling = monotime.Second

// Probe bounds: a retransmission before the local ACK time-out never comes
// earlier than minProbe, which covers a peer's scheduling delay.
const (
	initialProbe = 20 * monotime.Millisecond
	minProbe     = 4 * monotime.Millisecond
	maxProbe     = monotime.Second
	maxBackoff   = 8
)

func (l *recovery) start() {
	*l = recovery{window: initialWindow, threshold: ordinaryWindow, ceiling: maxWindow, lossless: true, ackDeadline: monotime.Never}
}

// sent notes a packet sent for the first time.
func (l *recovery) sent(now monotime.Time, psn ib.PSN) {
	if !l.timing {
		l.timing, l.timedPSN, l.timedAt = true, psn, now
	}
}

// acked takes note of progress to una by n bytes.
func (l *recovery) acked(now monotime.Time, una ib.PSN, n int) {
	if n > 0 {
		l.backoff = 0
		l.wentBack = false
	}
	if l.timing && l.timedPSN.Before(una) {
		l.timing = false
		l.sample(now.Sub(l.timedAt))
	}
	switch {
	case l.window < l.threshold:
		l.window += n
	case l.lossless:
		l.window += n / 8
	default:
		l.window += 4096 * n / l.window
	}
	if l.ceiling < maxWindow && !now.Before(l.ceilingUntil) {
		l.ceiling = maxWindow
	}
	l.window = min(l.window, l.ceiling)
}

// sample updates the smoothed round trip. Source: RFC 6298, section 2.
func (l *recovery) sample(rtt monotime.Duration) {
	if l.srtt == 0 {
		l.srtt, l.rttvar = rtt, rtt/2
		return
	}
	d := l.srtt - rtt
	if d < 0 {
		d = -d
	}
	l.rttvar += (d - l.rttvar) / 4
	l.srtt += (rtt - l.srtt) / 8
}

// lost halves the window and keeps it for a while below what was too much.
// Karn: a round trip in progress is no longer timed.
func (l *recovery) lost(now monotime.Time, mtu int) {
	l.timing = false
	l.lossless = false
	l.ceiling, l.ceilingUntil = max(l.window*7/8, ordinaryWindow), now.Add(believeCeiling)
	l.threshold = max(l.window/2, minWindow, 2*mtu)
	l.window = l.threshold
}

// collapse is what a time-out does to the window.
func (l *recovery) collapse(now monotime.Time, mtu int) {
	l.lost(now, mtu)
	l.window = max(minWindow, 2*mtu)
}

// probe returns the time after which to retransmit on our own account.
func (l *recovery) probe() monotime.Duration {
	d := initialProbe
	if l.srtt != 0 {
		d = max(l.srtt+4*l.rttvar, minProbe)
	}
	return min(d<<l.backoff, maxProbe)
}

// mayGoBack reports whether a NAK for psn is news: a duplicate of one acted on
// within a round trip would only repeat what is on its way.
func (l *recovery) mayGoBack(now monotime.Time, psn ib.PSN) bool {
	if l.wentBack && l.backPSN == psn && now.Sub(l.backAt) < max(2*l.srtt, 50*monotime.Microsecond) {
		return false
	}
	l.wentBack, l.backPSN, l.backAt = true, psn, now
	return true
}

// goBack makes psn the next to send. Answers to what was sent before still
// count when they come.
func (q *QP) goBack(psn ib.PSN) {
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

// armTimer sets the timer for what is outstanding, or stops it.
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
	q.req.timer = min(now.Add(q.req.loss.probe()), q.req.loss.ackDeadline)
}

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
	} else {
		q.Count[roce.TailProbe]++
	}
	first := r.loss.backoff == 0
	r.loss.backoff = min(r.loss.backoff+1, maxBackoff)
	if first && !expired && len(r.reads) == 0 && r.next == r.max {
		r.probing = true
		q.setTimer(now)
		return
	}
	q.goBack(r.una)
	r.loss.collapse(now, q.MTU)
	q.setTimer(now)
}

// sendProbe repeats the newest packet, asking for an acknowledgement. A peer
// that was merely late acknowledges everything; one that misses something says
// from where with a NAK. Either way nothing is sent twice in vain.
//
// Source: RFC 8985, section 7 (tail loss probe).
func (q *QP) sendProbe(now monotime.Time, b *roce.Burst) {
	r := &q.req
	cur, off, next := r.cur, r.off, r.next
	q.seek(r.max.Prev())
	if r.cur < q.SQ.Tail() {
		q.sendPacket(now, q.SQ.AtAbs(r.cur), b)
	}
	r.probing = false
	r.cur, r.off, r.next = cur, off, next
}

// spendRetry takes one of retry_cnt, ending the queue pair when none is left.
//
// Spec: IBTA vol. 1, 9.9.2.4.1 (retry counters).
func (q *QP) spendRetry(now monotime.Time, v ib.VendorErr) bool {
	r := &q.req
	if r.retries == 0 {
		q.failOldest(now, ib.WCRetryExcErr, v)
		return false
	}
	r.retries--
	return true
}
