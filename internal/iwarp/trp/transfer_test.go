// SPDX-License-Identifier: BSD-2-Clause

package trp

import (
	"testing"

	"verbena/internal/congestion"
	"verbena/internal/monotime"
	"verbena/internal/rtt"
	wire "verbena/internal/wire/trp"
)

func TestSegmentsInOrder(t *testing.T) {
	s := established(t, Config{})
	s.send(3)
	for i := range uint64(3) {
		s.wantData(i, 0)
	}
	wantEqual(t, "datagrams in the burst", s.bursts[len(s.bursts)-1], 3)
	s.recv(ack(0, 2))
	wantEqual(t, "acknowledged", s.acked, 2)
	s.recv(data(0, 3), data(1, 3))
	wantEqual(t, "acknowledged", s.acked, 3)
	s.wantACK(3, 2) // one for both
	s.wantUp(0, 1)
	wantEqual(t, "in order", s.order, 2)
	s.pass(10 * monotime.Second)
	s.wantNothing()
}

func TestACKGoesWithSegments(t *testing.T) {
	s := established(t, Config{})
	s.c.Send(segment0(0))
	s.c.HandleInput(s.now, s.from, data(0, 0).Append(nil))
	s.poll()
	s.wantData(0, 1)
	s.wantNothing()
}

// A duplicate is acknowledged again: the first ACK may have been lost.
func TestDuplicateIsAcknowledgedAgain(t *testing.T) {
	s := established(t, Config{})
	s.recv(data(0, 0))
	s.wantACK(0, 1)
	s.recv(data(0, 0))
	s.wantACK(0, 1)
	s.recv(data(2, 0))
	s.wantSACK(2, 3)
	s.recv(data(2, 0))
	s.wantSACK(2, 3)
	s.wantUp(0, 2)
	s.wantCount(Duplicate, 2)
}

func TestOutOfOrderIsPlacedAndReported(t *testing.T) {
	s := established(t, Config{})
	s.recv(data(1, 0))
	s.wantSACK(1, 2)
	s.recv(data(2, 0))
	s.wantSACK(1, 3)
	s.recv(data(5, 0))
	s.wantSACK(1, 3) // again: the last SACK of a range may have been lost
	s.wantSACK(5, 6)
	s.wantUp(1, 2, 5)
	wantEqual(t, "in order", s.order, 0)
	s.recv(data(0, 0))
	s.wantACK(0, 3)
	wantEqual(t, "in order", s.order, 3)
	s.recv(data(4, 0), data(3, 0))
	s.wantACK(0, 6)
	s.wantNothing()
	s.wantUp(0, 4, 3)
	wantEqual(t, "in order", s.order, 6)
}

// If many ranges are touched at once, the newest are reported, the oldest of them first.
func TestRangesAreBounded(t *testing.T) {
	s := established(t, Config{})
	const last = 2*maxRanges + 11
	var all []wire.Packet
	for seq := uint64(1); seq <= last; seq += 2 {
		all = append(all, data(seq, 0))
	}
	s.recv(all...)
	for i := range uint64(maxRanges) {
		from := last - 2*(maxRanges-1-i)
		s.wantSACK(from, from+1)
	}
	s.wantNothing()
}

func TestRefusedSegmentComesAgain(t *testing.T) {
	s := established(t, Config{})
	s.refuse = true
	s.recv(data(0, 0), data(1, 0))
	s.wantNothing()
	s.refuse = false
	s.recv(data(1, 0))
	s.wantSACK(1, 2)
	s.recv(data(0, 0))
	s.wantACK(0, 2)
	s.wantUp(1, 0)
	s.wantCount(RefusedByUpper, 2)
}

func TestReceiveWindow(t *testing.T) {
	s := established(t, Config{Window: 64})
	s.recv(data(64, 0), data(1<<31-1, 0))
	s.wantNothing()
	s.wantCount(BeyondWindow, 2)
	s.recv(data(1<<31, 0)) // half the way round is behind
	s.wantACK(0, 0)
	s.recv(data(63, 0))
	s.wantSACK(63, 64)
	s.wantUp(63)
}

// Three sent later have arrived: the first is lost, and goes at once.
func TestFastRetransmit(t *testing.T) {
	s := established(t, Config{})
	s.roundTrip(monotime.Millisecond)
	s.send(5)
	for i := range uint64(5) {
		s.wantData(1+i, 0)
	}
	s.pass(monotime.Millisecond)
	s.recv(sack(2, 3))
	s.recv(sack(2, 4))
	s.wantNothing()
	s.recv(sack(2, 5))
	s.wantData(1, 0)
	s.wantCount(Lost, 1)
	s.recv(ack(0, 6))
	s.pass(10 * monotime.Second)
	s.wantNothing()
	wantEqual(t, "acknowledged", s.acked, 6)
}

// A sacked segment does not go again, whether by loss detection or time-out.
func TestSACKIsObeyed(t *testing.T) {
	s := established(t, Config{})
	s.roundTrip(monotime.Millisecond)
	s.send(6)
	for i := range uint64(6) {
		s.wantData(1+i, 0)
	}
	s.recv(sack(3, 4), sack(5, 7))
	s.wantData(1, 0)
	s.wantData(2, 0)
	s.wantNothing()
	s.pass(s.c.loss.RTT.Timeout()) // both lost again, and 4 overtaken meanwhile
	seen := map[wire.PSN]bool{}
	for _, p := range s.sent {
		seen[p.PSN] = true
	}
	if len(seen) != 3 || !seen[1] || !seen[2] || !seen[4] {
		t.Errorf("sent again: %v", seen)
	}
}

// One that was sent later has arrived, and a round trip and its variance are
// over: lost.
func TestOvertakenIsLostAfterAWhile(t *testing.T) {
	s := established(t, Config{})
	s.roundTrip(8 * monotime.Millisecond)
	s.send(2)
	s.wantData(1, 0)
	s.wantData(2, 0)
	s.pass(8 * monotime.Millisecond)
	s.recv(sack(2, 3))
	wantEqual(t, "variance", s.c.loss.RTT.Variation, 3*monotime.Millisecond) // 3/4 of 4 ms: SACK measures too
	s.pass(3*monotime.Millisecond - 1)
	s.wantNothing()
	s.pass(1)
	s.wantData(1, 0)
	s.wantCount(Lost, 1)
	s.wantCount(Timeouts, 0)
}

// A report that overtakes one of earlier segments makes these lost until the other comes. That is
// no loss that the window is judged by. From then on what was overtaken is lost after a while only.
func TestReportsThatOvertake(t *testing.T) {
	s := established(t, Config{})
	s.roundTrip(monotime.Millisecond)
	s.send(9)
	s.sent = nil
	s.pass(monotime.Millisecond)
	s.recv(ack(0, 2))               // begins a round trip
	s.recv(sack(6, 10), sack(3, 6)) // to be answered together
	s.wantData(2, 0)
	s.wantNothing()
	s.wantCount(Lost, 4)
	wantEqual(t, "bytes lost in the round trip", s.c.loss.roundLost, s.c.snd.largest)
	s.recv(ack(0, 10))
	s.send(4)
	s.sent = nil
	s.pass(s.c.loss.RTT.Smoothed)
	s.recv(sack(11, 14))
	s.wantNothing()
	s.pass(s.c.loss.RTT.Variation + s.c.loss.RTT.Smoothed/8)
	s.wantData(10, 0)
}

// A repetition that is lost too is found by a segment that was sent after it.
func TestLostRepetition(t *testing.T) {
	s := established(t, Config{})
	s.roundTrip(monotime.Millisecond)
	s.send(4)
	s.sent = nil
	s.pass(monotime.Millisecond)
	s.recv(sack(2, 5))
	s.wantData(1, 0)
	s.send(3) // sent after the repetition
	for i := range uint64(3) {
		s.wantData(5+i, 0)
	}
	s.pass(monotime.Millisecond)
	s.recv(sack(2, 8))
	s.wantData(1, 0)
	s.wantCount(Timeouts, 0)
}

// A repetition in flight does not hide that another segment is lost.
func TestSecondLoss(t *testing.T) {
	s := established(t, Config{})
	s.roundTrip(monotime.Millisecond)
	s.send(8)
	s.sent = nil
	s.pass(monotime.Millisecond)
	s.recv(sack(2, 5))
	s.wantData(1, 0)
	s.recv(sack(6, 9))
	s.wantData(5, 0)
	s.wantNothing()
}

func TestRetransmissionTimeout(t *testing.T) {
	s := establishedByUrdma(t, Config{})
	s.send(2)
	s.wantData(0, 0)
	s.wantData(1, 0)
	s.pass(rtt.First - 1) // nothing measured yet
	s.wantNothing()
	s.pass(1)
	s.wantData(0, 0)
	s.wantData(1, 0)
	s.pass(rtt.First)
	s.wantData(0, 0)
	s.wantData(1, 0)
	s.pass(2*rtt.First - 1) // backs off
	s.wantNothing()
	s.pass(1)
	s.wantData(0, 0)
	s.wantData(1, 0)
	s.wantCount(Timeouts, 3)
	s.recv(ack(0, 2))
	wantEqual(t, "round trip measured from a repetition", s.c.RTT(), 0) // Karn
	s.roundTrip(2 * monotime.Millisecond)
	wantEqual(t, "smoothed round trip", s.c.RTT(), 2*monotime.Millisecond)
	// RFC 6298: SRTT = R, RTTVAR = R/2, RTO = SRTT + 4·RTTVAR; back-off is over
	wantEqual(t, "time-out", s.c.loss.RTT.Timeout(), 6*monotime.Millisecond)
	s.roundTrip(5 * monotime.Millisecond)
	// RTTVAR = 3/4·1 + 1/4·|2-5| = 1.5 ms; SRTT = 7/8·2 + 1/8·5 = 2.375 ms
	wantEqual(t, "smoothed round trip", s.c.RTT(), 2375*monotime.Microsecond)
	wantEqual(t, "time-out", s.c.loss.RTT.Timeout(), 8375*monotime.Microsecond)
}

// A round trip longer than the first time-out has everything repeated, and is not known yet. What
// was overtaken is not taken for lost after a while: the answers may be those of the first copies.
func TestNothingIsLostAfterAWhileOnAnUnknownPath(t *testing.T) {
	s := establishedByUrdma(t, Config{})
	s.send(4)
	for seq := range uint64(4) {
		s.wantData(seq, 0)
	}
	s.pass(s.c.loss.rto.Sub(s.now))
	for seq := range uint64(4) {
		s.wantData(seq, 0)
	}
	s.pass(5 * monotime.Millisecond)
	s.recv(sack(2, 4))
	s.pass(monotime.Millisecond)
	s.wantNothing()
	s.recv(ack(0, 4))
	s.wantNothing()
	s.wantCount(Lost, 0)
}

func TestTimeoutHasALeastAndAMost(t *testing.T) {
	s := established(t, Config{Retries: 20})
	s.roundTrip(20 * monotime.Microsecond)
	wantEqual(t, "time-out", s.c.loss.RTT.Timeout(), 20*monotime.Microsecond+rtt.Least)
	s.send(1)
	s.wantData(1, 0)
	last := s.now
	for range 15 {
		for len(s.sent) == 0 {
			s.pass(rtt.Least)
		}
		s.wantData(1, 0)
		if gap := s.now.Sub(last); gap > rtt.Most {
			t.Fatalf("%v between two", gap)
		}
		last = s.now
	}
}

func TestDeadPeer(t *testing.T) {
	s := established(t, Config{Retries: 3})
	s.send(1)
	s.wantData(0, 0)
	for range 3 {
		s.pass(s.c.loss.rto.Sub(s.now))
		s.wantData(0, 0)
	}
	s.wantNoEvent()
	s.pass(s.c.loss.rto.Sub(s.now))
	s.wantFIN(1, 0)
	s.wantEvent(EventDisconnected, Timeout)
	wantEqual(t, "room", s.c.Room(), 0)
	s.pass(timeWait)
	s.wantEvent(EventClosed, 0)
	s.wantNothing()
}

// Time-outs count in a row: any progress starts anew.
func TestSlowPeer(t *testing.T) {
	s := establishedByUrdma(t, Config{Retries: 2})
	s.send(3)
	for n := range uint64(3) {
		for range 2 {
			s.pass(s.c.loss.rto.Sub(s.now))
		}
		s.recv(ack(0, n+1))
	}
	s.wantNoEvent()
	s.wantCount(Timeouts, 6)
	wantEqual(t, "acknowledged", s.acked, 3)
}

// The last ACK was lost, and all else was sacked: the oldest goes again.
func TestAllSackedButUnacknowledged(t *testing.T) {
	s := established(t, Config{})
	s.send(3)
	s.sent = nil
	s.recv(sack(1, 3), ack(0, 1)) // a peer that acknowledges less than it has
	s.wantNothing()
	s.pass(s.c.loss.rto.Sub(s.now))
	s.wantData(1, 0)
	s.recv(ack(0, 3))
	s.pass(10 * monotime.Second)
	s.wantNothing()
}

// Too much loss in a round halves the window; a time-out leaves two segments.
func TestWindowFollowsLoss(t *testing.T) {
	const trip = 2 * monotime.Millisecond // longer than paths on which one lost tells of a queue
	s := established(t, Config{})
	s.roundTrip(trip)
	before := s.c.loss.Bytes()
	s.send(100)
	s.pass(trip)
	s.recv(sack(2, 101)) // one of a hundred
	s.recv(ack(0, 101))
	if s.c.loss.Bytes() < before {
		t.Errorf("one lost of a hundred: window %d, was %d", s.c.loss.Bytes(), before)
	}
	before = s.c.loss.Bytes()
	s.send(100)
	s.pass(trip)
	s.recv(sack(131, 201)) // thirty
	if got := s.c.loss.Bytes(); got > before/2+100*20 {
		t.Errorf("thirty lost of a hundred: window %d, was %d", got, before)
	}
	s.recv(ack(0, 201))
	s.sent = nil
	before = s.c.loss.Bytes()
	for range 5 { // rounds
		s.send(50)
		s.sent = nil
		s.recv(ack(0, s.c.snd.next))
	}
	if got := s.c.loss.Bytes(); got <= before || got > before+5*50 {
		t.Errorf("window %d five rounds after loss, was %d: want a little more", got, before)
	}
	s.send(100)
	before = s.c.loss.Bytes()
	s.pass(s.c.loss.rto.Sub(s.now))
	wantEqual(t, "window after a probe", s.c.loss.Bytes(), before)
	s.pass(s.c.loss.rto.Sub(s.now))
	wantEqual(t, "window after a time-out", s.c.loss.Bytes(), smallWindow)
}

// While no round trip is known each time-out sends the newest segment again, and the window stays.
// The path may be longer than the time-outs.
func TestProbesOfAnUnknownPath(t *testing.T) {
	s := established(t, Config{})
	s.send(5)
	s.sent = nil
	before := s.c.loss.Bytes()
	for range 3 {
		s.pass(s.c.loss.rto.Sub(s.now))
		s.wantData(4, 0)
		s.wantNothing()
	}
	s.recv(ack(0, 4))
	wantEqual(t, "round trip", s.c.RTT(), 4*rtt.First)
	if got := s.c.loss.Bytes(); got < before {
		t.Errorf("window %d, was %d", got, before)
	}
}

// Where nothing is queued and no acknowledgement comes the newest segment goes again first. Its
// report shows the others that are missing.
func TestTailProbe(t *testing.T) {
	s := established(t, Config{})
	s.roundTrip(8 * monotime.Millisecond)
	s.send(5)
	s.sent = nil
	s.pass(24 * monotime.Millisecond) // the variation of a first round trip is half of it
	s.wantCount(TailProbes, 1)
	wantEqual(t, "sent again", s.c.count.By[Retransmitted], 1)
	newest := s.c.snd.next - 1
	s.sent = nil
	s.pass(8 * monotime.Millisecond)
	s.recv(sack(newest, newest+1))
	wantEqual(t, "found lost", s.c.count.By[Lost], 4)
	wantEqual(t, "sent again", s.c.count.By[Retransmitted], 5)
	s.wantCount(Timeouts, 0)
}

// So it does where more is queued: the peer may only have slept.
func TestProbeOfAFullWindow(t *testing.T) {
	s := established(t, Config{})
	s.roundTrip(8 * monotime.Millisecond)
	window := s.c.loss.Bytes()
	big := make([]byte, 1000)
	for range 2 * window / len(big) {
		s.c.Send(big)
	}
	s.poll()
	s.pass(8 * monotime.Millisecond) // at the pace
	s.sent = nil
	s.pass(s.c.loss.rto.Sub(s.now))
	wantEqual(t, "sent again", len(s.sent), 1)
	wantEqual(t, "which", s.sent[0].PSN, wire.PSN(s.c.snd.next-1))
	wantEqual(t, "window", s.c.loss.Bytes(), window)
	s.sent = nil
	s.pass(s.c.loss.rto.Sub(s.now))
	s.wantCount(Timeouts, 1)
	wantEqual(t, "window", s.c.loss.Bytes(), smallWindow)
}

// A message that is all the sender has is not cut by the pace, but a longer one is.
func TestLoneMessageIsNotPaced(t *testing.T) {
	big := make([]byte, 1000)
	for segments, whole := range map[int]bool{60: true, 70: false} {
		s := established(t, Config{})
		s.roundTrip(8 * monotime.Millisecond)
		s.sent = nil
		for range segments {
			s.c.Send(big)
		}
		s.poll()
		if n := len(s.sent); n == 0 || (n == segments) != whole {
			t.Errorf("%d segments of %d go at once", n, segments)
		}
	}
}

// The probe goes also where losses have shrunk the window below what is in flight.
func TestProbeIsNotHeldByTheWindow(t *testing.T) {
	s := established(t, Config{})
	s.roundTrip(8 * monotime.Millisecond)
	big := make([]byte, 1000)
	for range 15 {
		s.c.Send(big)
	}
	s.poll()
	s.pass(monotime.Millisecond) // at the pace
	wantEqual(t, "sent", len(s.sent), 15)
	for s.c.loss.Bytes() >= 14*len(big) {
		s.c.loss.Lost(s.now, smallWindow)
	}
	s.sent = nil
	s.pass(23 * monotime.Millisecond)
	wantEqual(t, "sent", len(s.sent), 1)
	wantEqual(t, "of the newest", s.sent[0].PSN, wire.PSN(s.c.snd.next-1))
	s.wantCount(TailProbes, 1)
}

// The wait for the probe is that of an empty queue also where a burst has emptied it.
func TestProbeOfABurst(t *testing.T) {
	const trip = 2 * monotime.Millisecond
	s := established(t, Config{})
	for range 30 { // the variation goes
		s.roundTrip(trip)
	}
	s.send(5)
	s.sent = nil
	s.pass(2*trip - 1)
	s.wantCount(TailProbes, 1)
}

// Urdma reports no segment twice. So it is asked by no probe, but gets all that is missing.
func TestNoProbeOfUrdma(t *testing.T) {
	s := establishedByUrdma(t, Config{})
	s.roundTrip(8 * monotime.Millisecond)
	s.send(3)
	s.sent = nil
	s.pass(s.c.loss.rto.Sub(s.now))
	for seq := range uint64(3) {
		s.wantData(seq+1, 0)
	}
	s.wantCount(TailProbes, 0)
}

// Segments in flight are bounded in bytes; queued segments in number.
func TestFlightIsBounded(t *testing.T) {
	s := established(t, Config{})
	m := newMemory(t, 64<<10)
	fill := func() {
		for i := 0; s.c.Send([]byte{byte(i)}, m.span(0, 8192)); i++ {
		}
	}
	fill()
	wantEqual(t, "queued", s.c.Outstanding(), maxQueued)
	n := 0
	for s.c.PollOutput(s.now, s.burst) {
		n += s.burst.Len()
		s.burst.Reset()
	}
	wantEqual(t, "sent", n, congestion.Initial/8193)
	for s.c.snd.una < 8*maxQueued { // every round is acknowledged, and the next one larger or as large
		s.now = s.now.Add(monotime.Millisecond)
		a := ack(0, s.c.snd.next)
		s.c.HandleInput(s.now, s.from, a.Append(nil))
		for fill(); s.c.PollOutput(s.now, s.burst); fill() {
			s.burst.Reset()
		}
		if s.c.snd.flyingBytes > s.c.loss.Bytes() {
			t.Fatalf("%d bytes in flight", s.c.snd.flyingBytes)
		}
	}
	if s.c.loss.Bytes() < congestion.Free {
		t.Errorf("a window of %d bytes at the end", s.c.loss.Bytes())
	}
}
