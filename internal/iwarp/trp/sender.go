// SPDX-License-Identifier: BSD-2-Clause

package trp

import (
	"verbena/internal/mem"
	"verbena/internal/monotime"
	wire "verbena/internal/wire/trp"
)

// slotState is the state of a segment, as far as the sender knows.
type slotState uint8

const (
	queued slotState = iota // not yet sent
	flying                  // sent, nothing known
	sacked                  // arrived beyond a gap
	lost                    // to be sent again
)

// slot is a segment and where it stands. Its slices are used again.
type slot struct {
	head    []byte     // copied
	payload []mem.Span // held
	bytes   int        // of both
	state   slotState
	again   bool          // sent more than once
	sentAt  monotime.Time // the last time
	xmit    uint64        // and its place among all transmissions, from 1
	arrived int           // bytes of all time that had arrived then
	// neighbours in the order of transmission: sequence numbers plus 1, 0 for none
	before, after uint64
}

func (s *slot) release() {
	for i := range s.payload {
		s.payload[i].Release()
	}
	clear(s.payload)
	s.payload, s.head = s.payload[:0], s.head[:0]
}

// sender keeps the ring of segments, by 64-bit sequence numbers. Their low halves are the PSNs.
type sender struct {
	ring           []slot // a power of two; grows to the window
	una, next, end uint64 // all before are acknowledged, sent, queued
	window         uint64 // of the peer, or ours if that is smaller
	flyingBytes    int
	lost           int    // slots in that state
	lostFrom       uint64 // there is none before
	xmits          uint64 // transmissions so far
	largest        int    // segment, in bytes
	// flying slots in the order of transmission: sequence numbers plus 1, 0 for none
	oldest, newest uint64
	sacked         seqset // slots in that state; nil until a SACK has come
}

// link puts a slot that is sent behind all others that are flying.
func (s *sender) link(seq uint64, x *slot) {
	x.before, x.after = s.newest, 0
	if s.newest == 0 {
		s.oldest = seq + 1
	} else {
		s.at(s.newest - 1).after = seq + 1
	}
	s.newest = seq + 1
}

// unlink takes a slot out that is not flying any more.
func (s *sender) unlink(x *slot) {
	if x.before == 0 {
		s.oldest = x.after
	} else {
		s.at(x.before - 1).after = x.after
	}
	if x.after == 0 {
		s.newest = x.before
	} else {
		s.at(x.after - 1).before = x.before
	}
}

func (s *sender) at(seq uint64) *slot { return &s.ring[seq&uint64(len(s.ring)-1)] }

// firstRing is the size that the ring begins with; many associations never
// have more outstanding.
const firstRing = 16

// grow makes room for one more segment.
func (s *sender) grow() {
	if s.end-s.una < uint64(len(s.ring)) {
		return
	}
	ring := make([]slot, max(firstRing, 2*len(s.ring)))
	for seq := s.una; seq < s.end; seq++ {
		ring[seq&uint64(len(ring)-1)] = *s.at(seq)
	}
	s.ring = ring
}

// maxQueued bounds the segments that are queued and not sent: some bursts. The ring stays as small
// as the path permits.
const maxQueued = 1024

// Room returns how many segments Send takes.
func (c *Conn) Room() int {
	w := &c.snd
	if !takes.Has(c.state) || w.end-w.una >= w.window || w.end-w.next >= maxQueued {
		return 0
	}
	return int(min(w.window-(w.end-w.una), maxQueued-(w.end-w.next)))
}

// Send queues a segment: head, which is copied, and then the memory of payload,
// whose holds it takes over until HandleAcked or the end of the association.
// Without Room it returns false and takes nothing. A segment longer than
// MaxSegmentBytes is a fault of the caller.
func (c *Conn) Send(head []byte, payload ...mem.Span) bool {
	if c.Room() == 0 {
		return false
	}
	n := len(head)
	for i := range payload {
		n += payload[i].Len()
	}
	if n == 0 || n > MaxSegmentBytes {
		panic("trp: a segment of no bytes, or too many")
	}
	c.snd.grow()
	s := c.snd.at(c.snd.end)
	s.head = append(s.head[:0], head...)
	s.payload = append(s.payload[:0], payload...)
	s.bytes, s.state, s.again, s.xmit = n, queued, false, 0
	c.snd.end++
	return true
}

// Outstanding returns how many segments are queued or not acknowledged.
func (c *Conn) Outstanding() int { return int(c.snd.end - c.snd.una) }

// nextSegment returns the next segment to send: lost ones first.
func (s *sender) nextSegment() (uint64, *slot) {
	if s.lost > 0 {
		for seq := max(s.una, s.lostFrom); seq < s.next; seq = s.unreported(seq+1, s.next) {
			if s.at(seq).state == lost {
				s.lostFrom = seq
				return seq, s.at(seq)
			}
		}
		panic("trp: the count of lost segments is wrong")
	}
	if s.next < s.end {
		return s.next, s.at(s.next)
	}
	return 0, nil
}

// transmittable is nextSegment within the bytes that may be in flight, at the pace: one segment
// always may.
func (c *Conn) transmittable(now monotime.Time) (uint64, *slot) {
	c.loss.paced = monotime.Never
	if !c.transmits() {
		return 0, nil
	}
	seq, s := c.snd.nextSegment()
	if s != nil && c.snd.flyingBytes > 0 && c.snd.flyingBytes+s.bytes > c.loss.Bytes() &&
		!c.loss.probing {
		return 0, nil
	}
	if at := c.loss.Pace(now); s != nil && now.Before(at) &&
		!c.loss.Whole(c.Outstanding()*c.snd.largest) {
		c.loss.paced = at
		return 0, nil
	}
	return seq, s
}

// transmits reports whether segments may go out: to a client once something of it
// has come.
func (c *Conn) transmits() bool { return open.Has(c.state) && c.state != AcceptSent }

// sendSegments fills a burst. Each transmission reports anew which segments have arrived.
func (c *Conn) sendSegments(now monotime.Time, b *Burst) {
	for {
		seq, s := c.transmittable(now)
		if s == nil {
			return
		}
		fits, ok := b.segment(c.peer, wire.Header{PSN: wire.PSN(seq), AckPSN: wire.PSN(c.rcv.next)},
			s)
		if !ok {
			c.fail(now, BadMemory)
			return
		}
		if !fits {
			return
		}
		c.sent(now, seq, s)
		c.rcv.tell = false
	}
}

func (c *Conn) sent(now monotime.Time, seq uint64, s *slot) {
	w := &c.snd
	if s.state == lost {
		w.lost--
		s.again = true
		c.loss.Repeated(now)
		c.count.By[Retransmitted]++
	} else {
		w.next++
	}
	w.xmits++
	s.state, s.sentAt, s.xmit, s.arrived = flying, now, w.xmits, c.loss.arrived
	w.link(seq, s)
	w.flyingBytes += s.bytes
	if !s.again || c.loss.RTT.Smoothed != 0 { // else the first train estimates the rate
		c.loss.Sent(now, s.bytes)
	}
	w.largest = max(w.largest, s.bytes)
	c.loss.probing = false
	if c.loss.rto == monotime.Never {
		c.startTimer(now)
	} else if c.probes() {
		c.loss.rto = min(c.loss.rto, now.Add(c.loss.ProbeWait()))
	}
}

// ackThrough takes note that all before psn has arrived. It returns false if
// that cannot be.
func (c *Conn) ackThrough(now monotime.Time, psn wire.PSN) bool {
	w := &c.snd
	d := psn.Diff(wire.PSN(w.una))
	switch {
	case d < 0:
		c.count.By[OldACK]++
		return true
	case uint64(d) > w.next-w.una:
		c.count.By[BadACK]++
		return false
	case d == 0:
		return true
	}
	for range d {
		s := w.at(w.una)
		c.delivered(now, s)
		if s.state == sacked {
			w.sacked.remove(w.una)
		}
		s.release()
		w.una++
	}
	c.progress(now)
	c.upper.HandleAcked(now, w.una)
	c.drained(now)
	return true
}

// handleSACK takes note that a range beyond a gap has arrived.
func (c *Conn) handleSACK(now monotime.Time, r wire.Range) {
	w := &c.snd
	from, to := r.Min.Diff(wire.PSN(w.una)), r.Max.Diff(wire.PSN(w.una))
	switch {
	case to <= 0:
		c.count.By[OldACK]++
		return
	case from <= 0 || uint64(to) > w.next-w.una: // the oldest must be missing
		c.count.By[BadRange]++
		return
	}
	if w.sacked == nil {
		w.sacked = newSeqset(c.Window)
	}
	progress := false
	end := w.una + uint64(to)
	for seq := w.unreported(w.una+uint64(from), end); seq < end; seq = w.unreported(seq, end) {
		s := w.at(seq)
		c.delivered(now, s)
		s.state = sacked
		w.sacked.add(seq)
		progress = true
	}
	if progress {
		c.progress(now)
	}
}

// unreported returns the first segment from seq on that is not sacked, or limit. Reports tell of
// the same segments again and again, so it looks at 64 at once.
func (s *sender) unreported(seq, limit uint64) uint64 {
	if s.sacked == nil {
		return seq
	}
	return s.sacked.runEnd(seq, limit)
}

// release gives back all queued segments, as if they had been acknowledged. The FIN then names a
// PSN beyond those that the peer has, so that it sees that something is missing.
func (c *Conn) release() {
	w := &c.snd
	for ; w.una < w.end; w.una++ {
		w.at(w.una).release()
	}
	w.next = w.end
	w.flyingBytes, w.lost, w.oldest, w.newest = 0, 0, 0, 0
	c.loss.stopTimers()
}

// GiveBack takes copies of all memory that is queued and not acknowledged, so
// that the application may have it back. An association whose memory is gone
// ends.
func (c *Conn) GiveBack(now monotime.Time) {
	w := &c.snd
	for seq := w.una; seq < w.end; seq++ {
		s := w.at(seq)
		if len(s.payload) == 0 {
			continue
		}
		for i := range s.payload {
			from := len(s.head)
			s.head = append(s.head, make([]byte, s.payload[i].Len())...)
			if !s.payload[i].CopyOut(0, s.head[from:]) {
				c.fail(now, BadMemory)
				return
			}
		}
		for i := range s.payload {
			s.payload[i].Release()
		}
		clear(s.payload)
		s.payload = s.payload[:0]
	}
}
