// SPDX-License-Identifier: BSD-2-Clause

package trp

import (
	"verbena/internal/congestion"
	"verbena/internal/monotime"
)

// recovery estimates the path: the round trip, the bytes that may be in flight, and the
// segments that must be lost.
type recovery struct {
	congestion.Window
	arrived  int    // bytes, of all time
	timeouts int    // in a row
	newest   uint64 // the latest transmission known to have arrived
	maybe    uint64 // likewise, if it was not an earlier one of the same segment
	// a round lasts until the segments sent at its start have arrived
	roundEnd       uint64
	roundLost      int // bytes
	roundDelivered int
	// Transmissions before were outstanding when the window last shrank: their losses are of the
	// same queue, or of the same chance.
	recovered uint64
	// round trips seen since the last call of progress: the latest transmission, how long it took,
	// and the bytes that had arrived when it was sent
	sampled       uint64
	sample        monotime.Duration
	sampleArrived int
	rto           monotime.Time // when all that is not reported goes again
	reorder       monotime.Time // when overtaken segments count as lost
	reorders      int           // rounds with losses until three overtakers tell a loss again
	probing       bool          // the next segment goes beyond the window
	paced         monotime.Time // when the pace lets the next segment go, if one waits for it
}

// smallWindow is the least that losses leave of the window, in bytes.
const smallWindow = 8 << 10

// A segment is lost when one sent this many transmissions later has arrived. It is also lost when
// any sent later has arrived, and a round trip and a while have passed. The while is an eighth of
// the round trip, its variance or minReorder. For reorderRounds with losses after a segment was
// reported too late, that alone tells. Source: RFC 8985, section 6.2, and RFC 9002, section 6.1.
const (
	lostAfter     = 3
	minReorder    = 100 * monotime.Microsecond
	reorderRounds = 16 // RACK.reo_wnd_persist
)

func (l *recovery) start() {
	*l = recovery{roundEnd: 1}
	l.stopTimers()
	l.Start(congestion.DeliveryRate)
}

func (l *recovery) stopTimers() {
	l.rto, l.reorder, l.paced = monotime.Never, monotime.Never, monotime.Never
}

// delivered takes note that a segment has arrived.
func (c *Conn) delivered(now monotime.Time, s *slot) {
	l := &c.loss
	switch s.state {
	case sacked:
		return
	case flying:
		c.snd.unlink(s)
		c.snd.flyingBytes -= s.bytes
	case lost: // it was only late
		c.snd.lost--
		l.roundLost = max(l.roundLost-s.bytes, 0)
		l.reorders = reorderRounds
	}
	l.roundDelivered += s.bytes
	l.arrived += s.bytes
	l.Acked(now, s.bytes)
	took := now.Sub(s.sentAt)
	if !s.again { // Karn: which transmission of several was it?
		if s.xmit > l.sampled {
			l.sampled, l.sample, l.sampleArrived = s.xmit, took, s.arrived
		}
		l.newest = max(l.newest, s.xmit)
	} else if took >= l.RTT.Shortest { // else an earlier one. Source: RFC 8985, section 6.2, step 2
		l.maybe = max(l.maybe, s.xmit)
	}
}

// progress follows any number of segments delivered.
func (c *Conn) progress(now monotime.Time) {
	l := &c.loss
	l.timeouts, l.probing = 0, false
	ends := l.newest >= l.roundEnd
	switch {
	case l.sampled == 0:
	case ends:
		l.Sample(now, l.sample, l.arrived-l.sampleArrived, true)
	default:
		l.Sample(now, l.sample, 0, false)
	}
	l.sampled = 0
	c.detectLoss(now)
	c.endRound(now, ends)
	l.rto = monotime.Never
	if c.snd.una < c.snd.next {
		c.startTimer(now)
	}
}

// startTimer starts the retransmission timer, or that of the probe if nothing is queued.
func (c *Conn) startTimer(now monotime.Time) {
	wait := c.loss.RTT.Timeout()
	if c.probes() {
		wait = c.loss.ProbeWait()
	}
	c.loss.rto = now.Add(wait)
}

// probes reports whether the newest segment is probed.
func (c *Conn) probes() bool { return c.telling && c.snd.next == c.snd.end }

// detectLoss finds segments sent before one that has arrived.
func (c *Conn) detectLoss(now monotime.Time) {
	l, w := &c.loss, &c.snd
	l.reorder = monotime.Never
	latest := max(l.newest, l.maybe)
	for w.oldest != 0 {
		seq := w.oldest - 1
		s := w.at(seq)
		if s.xmit >= latest {
			return
		}
		if s.xmit+lostAfter > l.newest || l.reorders > 0 {
			if l.RTT.Smoothed == 0 { // the path may be longer than the time-outs so far
				return
			}
			due := s.sentAt.Add(l.RTT.Smoothed + max(l.RTT.Smoothed/8, l.RTT.Variation, minReorder))
			if now.Before(due) {
				l.reorder = due
				return
			}
		}
		c.count.By[Lost]++
		if s.xmit >= l.recovered {
			l.roundLost += s.bytes
			l.Missed()
		}
		c.lose(seq, s)
	}
}

// lose has a segment sent again.
func (c *Conn) lose(seq uint64, s *slot) {
	w := &c.snd
	if s.state == flying {
		w.unlink(s)
		w.flyingBytes -= s.bytes
	}
	if w.lost == 0 || seq < w.lostFrom {
		w.lostFrom = seq
	}
	w.lost++
	s.state = lost
}

// endRound adapts the window to the losses of the round, which many losses of slow start end early.
func (c *Conn) endRound(now monotime.Time, ends bool) {
	l := &c.loss
	all := l.roundLost + l.roundDelivered
	if l.Starts() {
		enough := max(l.Bytes(), congestion.LeastJudged*c.snd.largest)
		ends = ends || l.roundLost*congestion.LossTolerance > enough
	}
	if !ends {
		return
	}
	if l.roundLost > 0 {
		l.reorders = max(l.reorders-1, 0)
	}
	if l.RoundEnds(now, l.roundLost, all, c.snd.largest, c.leastWindow()) {
		l.recovered = c.snd.xmits + 1
	}
	c.beginRound()
}

func (c *Conn) beginRound() {
	c.loss.roundEnd = c.snd.xmits + 1
	c.loss.roundLost, c.loss.roundDelivered = 0, 0
}

func (c *Conn) leastWindow() int { return max(smallWindow, 2*c.snd.largest) }

// mayProbe reports whether the newest segment goes again before all do: its report shows which are
// missing, and none are if the peer was only late. While no round trip is known the path may be
// longer than the time-outs, so it goes again each time. But urdma reports no segment twice.
func (c *Conn) mayProbe() bool {
	w, rtt := &c.snd, &c.loss.RTT
	return c.telling && w.at(w.next-1).state == flying && (rtt.Smoothed == 0 || rtt.Backoffs() == 0)
}

// retransmissionTimeout sends the newest segment again. At the second time-out in a row it sends
// all that were not reported to have arrived, and the oldest in any case.
//
// Source: RFC 6298, section 5, and RFC 8985, section 7 (tail loss probe).
func (c *Conn) retransmissionTimeout(now monotime.Time) {
	l, w := &c.loss, &c.snd
	if l.timeouts++; l.timeouts > c.Retries {
		c.count.By[Timeouts]++
		c.fail(now, Timeout)
		return
	}
	if c.mayProbe() {
		c.count.By[TailProbes]++
		c.lose(w.next-1, w.at(w.next-1))
		l.probing = true
		l.RTT.BackOff()
		l.rto = now.Add(l.RTT.Timeout())
		return
	}
	c.count.By[Timeouts]++
	if s := w.at(w.una); s.state == sacked { // the peer is slow to pass it on
		w.sacked.remove(w.una)
		c.lose(w.una, s)
	}
	for seq := w.unreported(w.una, w.next); seq < w.next; seq = w.unreported(seq+1, w.next) {
		if s := w.at(seq); s.state == flying {
			c.lose(seq, s)
		}
	}
	l.Expired(now, c.leastWindow(), c.leastWindow())
	c.beginRound()
	l.reorder = monotime.Never
	l.RTT.BackOff()
	l.rto = now.Add(l.RTT.Timeout())
}
