// SPDX-License-Identifier: BSD-2-Clause

package trp

import (
	"verbena/internal/monotime"
	wire "verbena/internal/wire/trp"
)

// receiver knows the segments that have arrived, by 64-bit sequence numbers.
type receiver struct {
	next uint64        // all before have come up
	high uint64        // none from here on has
	have seqset        // beyond next; nil until something came there
	tell bool          // next is to be sent, by an ACK or with a segment
	due  monotime.Time // when next, which has arrived, comes up; monotime.Never: it has not arrived
	// a part of the segments beyond a gap, [from, to), that is to be reported
	from, to uint64
}

// handleData takes a segment, or an ACK if there is none.
func (c *Conn) handleData(now monotime.Time, p *wire.Packet) {
	if !c.ackThrough(now, p.AckPSN) || len(p.Payload) == 0 || !open.Has(c.state) {
		return
	}
	r := &c.rcv
	d := p.PSN.Diff(wire.PSN(r.next))
	switch {
	case d < 0: // its ACK was lost
		c.count.By[Duplicate]++
		r.tell = true
		return
	case int(d) >= c.Window:
		c.count.By[BeyondWindow]++
		return
	}
	seq := r.next + uint64(d)
	if r.have.has(seq) {
		c.count.By[Duplicate]++
		r.touch(seq)
		return
	}
	if !c.upper.HandleSegment(now, seq, p.Payload) {
		c.count.By[RefusedByUpper]++
		return
	}
	r.high = max(r.high, seq+1)
	if d > 0 {
		c.count.By[OutOfOrder]++
		if r.have == nil {
			r.have = newSeqset(c.Window)
		}
		r.have.add(seq)
		r.touch(seq)
		return
	}
	r.next++
	c.closeGap(now)
}

// inOrderAtOnce bounds the segments beyond a gap that one call passes when it closes, as the caller
// holds the lock of the queue pair.
const inOrderAtOnce = 1024

// closeGap passes segments beyond a gap that has closed, as far as the next gap. After
// inOrderAtOnce segments the next one waits until the timer is due. The peer is told of them no
// earlier.
func (c *Conn) closeGap(now monotime.Time) {
	r := &c.rcv
	r.due = monotime.Never
	for n := 0; r.next < r.high && r.have.has(r.next); n++ {
		if n == inOrderAtOnce {
			r.due = now.Add(1) // other connections have their turn before
			break
		}
		r.have.remove(r.next)
		r.next++
	}
	r.tell = true
	if open.Has(c.state) { // HandleSegment may have ended the association
		c.upper.HandleInOrder(now, r.next)
	}
}

// touch has the range that seq lies in reported.
func (r *receiver) touch(seq uint64) {
	if r.from == r.to {
		r.from, r.to = seq, seq+1
		return
	}
	r.from, r.to = min(r.from, seq), max(r.to, seq+1)
}

// maxRanges bounds the SACKs for the segments that arrived between two bursts. Older ranges stay
// unreported until something arrives in them or behind them, or the gaps before them close.
const maxRanges = 32

// sendRanges puts SACKs into a burst, the oldest range first: the peer takes segments before those
// of a SACK for lost. The range before goes with them, as its last SACK may have been lost. A SACK
// says that the segment that an ACK names is missing, so none is sent while that one only waits.
func (c *Conn) sendRanges(b *Burst) {
	r := &c.rcv
	if r.due != monotime.Never {
		return
	}
	from, to := max(r.from, r.next+1), r.to
	r.from, r.to = 0, 0
	var ranges [maxRanges]wire.Range
	n := 0
	for above := to; n < maxRanges && r.next+1 < to && from < above; n++ {
		above = to
		last, ok := r.have.lastBefore(to, r.next+1)
		if !ok {
			break
		}
		to = r.have.runStart(last, r.next+1)
		end := r.have.runEnd(last, r.high)
		ranges[n] = wire.Range{Min: wire.PSN(to), Max: wire.PSN(end)}
	}
	for n--; n >= 0; n-- {
		if !b.control(c.peer, &wire.Packet{Header: ranges[n].Header()}) {
			return
		}
	}
}

// sendACK puts an ACK into a burst. It names the next PSN without consuming it.
func (c *Conn) sendACK(b *Burst) {
	if b.control(c.peer, &wire.Packet{Header: wire.Header{PSN: wire.PSN(c.snd.next),
		AckPSN: wire.PSN(c.rcv.next)}}) {
		c.rcv.tell = false
	}
}
