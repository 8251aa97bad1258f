// SPDX-License-Identifier: BSD-2-Clause

package trp

import "verbena/internal/monotime"

// recovery is what the sender knows of the path: how long a round trip is, how
// much may be in flight, and what must be lost.
type recovery struct {
	window    int // bytes that may be in flight
	threshold int // below, the window grows by what arrives; above, by a segment a round
	srtt      monotime.Duration
	rttvar    monotime.Duration
	minRTT    monotime.Duration
	backoff   uint8
	timeouts  int    // in a row
	newest    uint64 // the latest transmission known to have arrived
	maybe     uint64 // likewise, if it was not an earlier one of the same segment
	// a round lasts until what was sent at its start has arrived
	roundEnd       uint64
	roundLost      int // bytes
	roundDelivered int
	// round trips seen since the last call of progress: the latest transmission
	sampled uint64
	sample  monotime.Duration
	rto     monotime.Time // when all that is not reported goes again
	reorder monotime.Time // when what was overtaken counts as lost
}

// Bounds of the window, in bytes. The largest is what a socket of ordinary size
// (net.core.rmem_max of 212,992) holds in segmented trains.
const (
	initialWindow = 128 << 10
	maxWindow     = 320 << 10
	smallWindow   = 8 << 10
)

// Bounds of the retransmission time-out. RFC 6298 has a second for the first
// one and as the least, for the Internet; TRP is for networks of one site, and
// urdma waits 10 ms always. The least covers a peer's scheduling delay.
const (
	firstTimeout = 20 * monotime.Millisecond
	minTimeout   = 4 * monotime.Millisecond
	maxTimeout   = monotime.Second
)

// A segment is lost when one sent this many transmissions later has arrived, or
// any sent later and a round trip and a while have passed: an eighth of it, its
// variance or minReorder. Source: RFC 8985, section 6.2, and RFC 9002, section 6.1.
const (
	lostAfter  = 3
	minReorder = 100 * monotime.Microsecond
)

// lossTolerance is the part of a round, 1/16, that may be lost without the
// window shrinking. Where one datagram in a hundred is lost whatever is sent,
// halving it for each would leave a dozen segments in flight; a receiver that
// is overrun loses far more.
//
// Deviation: RFC 5681, section 3.2, halves the window for every loss.
const lossTolerance = 16

func (l *recovery) start() {
	*l = recovery{window: initialWindow, threshold: maxWindow, roundEnd: 1, rto: monotime.Never, reorder: monotime.Never}
}

// timeout returns the retransmission time-out. Source: RFC 6298, section 2.
func (l *recovery) timeout() monotime.Duration {
	d := firstTimeout
	if l.srtt != 0 {
		d = max(l.srtt+4*l.rttvar, minTimeout)
	}
	return min(d<<l.backoff, maxTimeout)
}

// measured takes in a round trip. Source: RFC 6298, section 2.
func (l *recovery) measured(rtt monotime.Duration) {
	rtt = max(rtt, 1)
	if l.srtt == 0 {
		l.srtt, l.rttvar, l.minRTT = rtt, rtt/2, rtt
		return
	}
	l.minRTT = min(l.minRTT, rtt)
	d := l.srtt - rtt
	if d < 0 {
		d = -d
	}
	l.rttvar += (d - l.rttvar) / 4
	l.srtt += (rtt - l.srtt) / 8
}

// delivered takes note that a segment has arrived.
func (c *Conn) delivered(now monotime.Time, s *slot) {
	l := &c.loss
	switch s.state {
	case sacked:
		return
	case flying:
		c.snd.flyingBytes -= s.bytes
	case lost:
		c.snd.lost--
	}
	l.roundDelivered += s.bytes
	if l.window < l.threshold {
		l.window = min(l.window+s.bytes, maxWindow)
	}
	rtt := now.Sub(s.sentAt)
	if !s.again { // Karn: which transmission of several was it?
		if s.xmit > l.sampled {
			l.sampled, l.sample = s.xmit, rtt
		}
		l.newest = max(l.newest, s.xmit)
	} else if rtt >= l.minRTT { // else an earlier one. Source: RFC 8985, section 6.2, step 2
		l.maybe = max(l.maybe, s.xmit)
	}
}

// progress follows any number of segments delivered.
func (c *Conn) progress(now monotime.Time) {
	l := &c.loss
	l.backoff, l.timeouts = 0, 0
	if l.sampled != 0 {
		l.measured(l.sample)
		l.sampled = 0
	}
	c.detectLoss(now)
	if l.newest >= l.roundEnd {
		c.endRound()
	}
	l.rto = monotime.Never
	if c.snd.una < c.snd.next {
		l.rto = now.Add(l.timeout())
	}
}

// detectLoss finds what was sent before something that has arrived.
func (c *Conn) detectLoss(now monotime.Time) {
	l, w := &c.loss, &c.snd
	l.reorder = monotime.Never
	latest := max(l.newest, l.maybe)
	for seq := w.una; seq < w.next; seq++ {
		s := w.at(seq)
		if s.xmit >= latest {
			if seq >= w.againBefore {
				return // from here on transmissions are in order
			}
			continue
		}
		if s.state != flying {
			continue
		}
		due := s.sentAt.Add(l.srtt + max(l.srtt/8, l.rttvar, minReorder))
		if s.xmit+lostAfter > l.newest && now.Before(due) {
			l.reorder = min(l.reorder, due)
			continue
		}
		c.count.By[Lost]++
		l.roundLost += s.bytes
		c.lose(seq, s)
	}
}

// lose has a segment sent again.
func (c *Conn) lose(seq uint64, s *slot) {
	w := &c.snd
	if s.state == flying {
		w.flyingBytes -= s.bytes
	}
	if w.lost == 0 || seq < w.lostFrom {
		w.lostFrom = seq
	}
	w.lost++
	s.state = lost
}

// endRound adapts the window to what the round lost.
func (c *Conn) endRound() {
	l := &c.loss
	switch {
	case l.roundLost*lossTolerance > l.roundLost+l.roundDelivered:
		l.threshold = max(l.window/2, c.leastWindow())
		l.window = l.threshold
	case l.window >= l.threshold:
		l.window = min(l.window+c.snd.largest, maxWindow)
	}
	c.beginRound()
}

func (c *Conn) beginRound() {
	c.loss.roundEnd = c.snd.xmits + 1
	c.loss.roundLost, c.loss.roundDelivered = 0, 0
}

func (c *Conn) leastWindow() int { return max(smallWindow, 2*c.snd.largest) }

// retransmissionTimeout has all sent again that was not reported to have
// arrived, and whatever was reported, the oldest. Source: RFC 6298, section 5.
func (c *Conn) retransmissionTimeout(now monotime.Time) {
	l, w := &c.loss, &c.snd
	c.count.By[Timeouts]++
	l.timeouts++
	if l.timeouts > c.Retries {
		c.fail(now, Timeout)
		return
	}
	for seq := w.una; seq < w.next; seq++ {
		if s := w.at(seq); s.state == flying || s.state == sacked && seq == w.una {
			c.lose(seq, s)
		}
	}
	l.threshold = max(l.window/2, c.leastWindow())
	l.window = c.leastWindow()
	c.beginRound()
	l.reorder = monotime.Never
	l.backoff++ // bounded by Retries
	l.rto = now.Add(l.timeout())
}
