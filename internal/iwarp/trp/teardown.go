// SPDX-License-Identifier: BSD-2-Clause

package trp

import (
	"verbena/internal/monotime"
	"verbena/internal/rtt"
	wire "verbena/internal/wire/trp"
)

// finRetries bounds the repetitions of a FIN. Each comes after twice the interval, up to
// rtt.Most. A peer that is gone, as urdma's is at once, does not answer.
const finRetries = 5

// finAnswers bounds the FINs answered in TimeWait, so that two ends that both
// answer come to an end.
const finAnswers = 5

// timeWait is the time for which FINs are answered, while a peer on the slowest path repeats
// its own.
const timeWait = (finRetries + 1) * rtt.Most

// Close ends the association once all queued segments are acknowledged. Data that the peer still
// has under way is lost, as TCP's reset loses it.
func (c *Conn) Close(now monotime.Time) {
	switch c.state {
	case ReqSent:
		c.giveUp(now)
	case Requested:
		c.reject(now, nil)
	case AcceptSent, Established:
		if c.state == AcceptSent {
			c.Abort(now) // nothing was sent, and nobody waits for it
			return
		}
		c.setState(Draining)
		c.drained(now)
	}
}

// Abort ends the association at once: queued segments that are not acknowledged are released and
// may or may not have arrived.
func (c *Conn) Abort(now monotime.Time) {
	switch c.state {
	case AcceptSent, Established, Draining:
		c.release()
		c.finSent(now)
	default:
		c.Close(now)
	}
}

// giveUp forgets a Request. Should an Accept come after all, it gets a FIN.
func (c *Conn) giveUp(now monotime.Time) {
	c.owed = wire.Data
	c.setState(TimeWait)
	c.timer = now.Add(requestLife)
}

// drained goes on from Draining when nothing is left to be acknowledged.
func (c *Conn) drained(now monotime.Time) {
	if c.state == Draining && c.snd.una == c.snd.end {
		c.finSent(now)
	}
}

func (c *Conn) finSent(now monotime.Time) {
	c.setState(FinSent)
	c.alive.at = monotime.Never
	c.refused.clear()
	c.owed, c.owedFIN = wire.Data, true
	c.repeatAfter(now, c.loss.RTT.Timeout(), finRetries)
}

func (c *Conn) repeatFIN(now monotime.Time) {
	if !c.again(now, rtt.Most) {
		c.over(now, LocalClose)
		return
	}
	c.count.By[FINRepeated]++
	c.owedFIN = true
}

// handleFIN is for the peer's end of the association, or its answer to ours.
func (c *Conn) handleFIN(now monotime.Time, h wire.Header) {
	if c.state == TimeWait {
		c.answerFIN()
		return
	}
	if c.state != FinSent && !open.Has(c.state) {
		c.count.By[IgnoredState]++
		return
	}
	// A FIN that is not within the window is forged, or of another time.
	ahead := h.PSN.Diff(wire.PSN(c.rcv.next))
	if ahead < 0 || int(ahead) > c.Window {
		c.count.By[BadFIN]++
		return
	}
	if c.state == FinSent {
		c.over(now, LocalClose)
		return
	}
	c.confirm(now)
	if !c.ackThrough(now, h.AckPSN) || !open.Has(c.state) {
		return
	}
	reason := PeerClose
	if ahead > 0 {
		reason = PeerAbort
	}
	c.release()
	c.owedFIN = true
	c.over(now, reason)
}

func (c *Conn) answerFIN() {
	if c.answers == finAnswers {
		c.count.By[IgnoredState]++
		return
	}
	c.answers++
	c.owedFIN = true
}

// fail ends the association for a reason of our own, and notifies the peer once.
func (c *Conn) fail(now monotime.Time, r Reason) {
	c.release()
	c.owedFIN = true
	c.over(now, r)
}

// over enters TimeWait.
func (c *Conn) over(now monotime.Time, r Reason) {
	c.setState(TimeWait)
	c.alive.at = monotime.Never
	c.refused.clear()
	c.owed = wire.Data
	c.timer = now.Add(timeWait)
	c.raise(Event{Kind: EventDisconnected, Reason: r})
}

// finish ends everything.
func (c *Conn) finish() {
	c.setState(Closed)
	c.owed, c.owedFIN, c.timer = wire.Data, false, monotime.Never
	c.raise(Event{Kind: EventClosed})
}

// sendFIN puts the FIN owed into a burst. It consumes no PSN.
func (c *Conn) sendFIN(b *Burst) {
	b.control(c.peer, &wire.Packet{Header: wire.Header{
		PSN: wire.PSN(c.snd.next), AckPSN: wire.PSN(c.rcv.next), Opcode: wire.FIN,
	}})
	c.owedFIN = false
}
