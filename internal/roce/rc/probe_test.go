// SPDX-License-Identifier: BSD-2-Clause

package rc_test

import (
	"testing"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/roce"
	"verbena/internal/rtt"
	"verbena/internal/testkit/script"
	wire "verbena/internal/wire/roce"
)

// known has the round trip of a path be known: the first WRITE, of PSN psn, is answered after it.
// The responder is foreign, unless its own bit says otherwise.
func known(s *script.Script, trip monotime.Duration, own bool) {
	s.Post(script.Write(10))
	s.Advance(trip)
	s.Packets()
	p := script.Ack(psn, 1)
	p.Selective = own
	s.Recv(p)
	s.WantWC("the first", 1, ib.WCSuccess)
}

// A burst takes no longer packet behind a shorter one. A probe of both then takes two bursts.
func TestProbeOfPacketsThatFitNoBurst(t *testing.T) {
	const trip = 2 * monotime.Millisecond
	s := script.New(t, newWideRC)
	known(s, trip, false)
	s.Post(script.Send(10), script.Write(1024))
	s.WantDrain("sent", 2)
	s.Advance(3 * trip)
	s.WantPacket("the oldest", wire.RCSendOnly, psn+1)
	s.WantPacket("the newest, which brings a NAK", wire.RCRDMAWriteOnly, psn+2)
	s.WantQuiet("that will do")
	s.Recv(script.Ack(psn+2, 3))
	s.WantWC("the SEND", 2, ib.WCSuccess)
	s.WantWC("the WRITE", 3, ib.WCSuccess)
}

// A flight of several bursts is probed as one of a single burst is: as soon after its last packet,
// which alone asks for an acknowledgement.
func TestProbeBehindSeveralBursts(t *testing.T) {
	const trip = 2 * monotime.Millisecond
	s := script.New(t, newWideRC)
	for i := range ib.PSN(30) { // until the variation is small
		s.Post(script.Write(10))
		s.WantDrain("sent", 1)
		s.Advance(trip)
		p := script.Ack(psn+i, ib.MSN(1+i))
		p.Selective = true
		s.Recv(p)
		s.WantWC("one", uint64(1+i), ib.WCSuccess)
	}
	s.Post(script.Send(10), script.Write(1024)) // a burst takes no longer packet behind a shorter one
	s.WantDrain("sent", 2)
	s.Advance(2 * trip)
	s.WantPacket("the newest", wire.RCRDMAWriteOnly, psn+31)
	s.WantQuiet("one")
	s.WantCount("probes", roce.TailProbe, 1)
}

// A first answer after many losses makes the path look longer than all local ACK time-outs. Each of
// them repeats something, whatever is outstanding, so that a single loss does not end the queue
// pair.
func TestEachTimeoutOfALongPathRepeats(t *testing.T) {
	const wait = 4 * 4096 * monotime.Nanosecond << 12
	for name, c := range map[string]struct {
		own  bool
		wr   script.WR
		some func(s *script.Script) // comes of the answer
		op   wire.Opcode
		psn  ib.PSN // missing
	}{
		"a READ of a foreign responder": {false, script.Read(1024), nil, wire.RCRDMAReadRequest,
			psn + 1},
		"a gap": {true, script.Write(4096),
			func(s *script.Script) { s.Recv(sack(psn+5, gap(psn+2, psn+2))) },
			wire.RCRDMAWriteMiddle, psn + 2},
		"missing responses": {true, script.Read(4096),
			func(s *script.Script) { s.Recv(last(psn + 4)) }, wire.RCRDMAReadRequest, psn + 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := script.New(t, newWideRC, relaxed,
				attr(func(a *ib.QPAttr) { a.Timeout, a.RetryCnt = 18, 7 }))
			known(s, 8*wait, c.own)
			s.Modify(ib.QPAttr{Timeout: 12}, ib.QPTimeout)
			s.Post(c.wr)
			if c.some != nil {
				s.Advance(6 * wait)
				c.some(s)
			}
			s.Advance(wait / 2) // at the pace
			s.Packets()
			for range 6 {
				s.Advance(wait)
				s.WantPacket("again", c.op, c.psn)
				s.WantQuiet("that is all")
			}
		})
	}
}

// A probe waits for the limit of the rate as any packet does. No retry is spent meanwhile.
func TestProbeWaitsForTheRate(t *testing.T) {
	s := script.New(t, newRC)
	limitRate(s, 8, 1) // a byte a millisecond
	s.Post(script.Write(1024))
	s.WantPacket("at once", wire.RCRDMAWriteOnly, psn)
	s.Advance(firstBytes*monotime.Millisecond - 1)
	s.WantQuiet("too early")
	s.Advance(1)
	s.WantPacket("the probe, at the rate", wire.RCRDMAWriteOnly, psn)
	s.WantQuiet("one")
	s.Advance(2 * firstBytes * monotime.Millisecond)
	s.WantDrain("each at the rate", 2)
	s.Recv(script.Ack(psn, 1))
	s.WantWC("done", 1, ib.WCSuccess)
}

// A packet that is acknowledged while its probe waits for its turn is not sent again, and no new
// work goes under its PSN.
func TestProbeOfNothing(t *testing.T) {
	s := script.New(t, newRC)
	s.Post(script.Write(10))
	s.WantDrain("sent", 1)
	s.Together(func() {
		s.Advance(rtt.First)
		s.Recv(script.Ack(psn, 1))
		s.Post(script.Read(1024))
	})
	s.WantWC("the first", 1, ib.WCSuccess)
	s.WantPacket("the READ", wire.RCRDMAReadRequest, psn+1)
	s.WantQuiet("nothing else")
}

// An RNR NAK that comes before the probe has its turn ends it: all from the refused packet on is
// repeated after the wait.
func TestProbeDuringRNR(t *testing.T) {
	s := script.New(t, newRC)
	s.Post(script.Send(10), script.Send(10))
	s.WantDrain("sent", 2)
	s.Together(func() {
		s.Advance(rtt.First)
		s.Recv(script.RNR(psn, 12))
	})
	s.WantQuiet("it waits")
	s.Advance(wire.RNRTimer(12))
	s.WantPacket("the refused one", wire.RCSendOnly, psn)
	s.WantPacket("what follows", wire.RCSendOnly, psn+1)
	s.WantQuiet("once each")
}

// A work request that fails while an earlier one is outstanding completes after it. The earlier
// one is repeated as long as it takes, and of the other nothing goes under a wrong PSN.
func TestLossBeforeAFailedRequest(t *testing.T) {
	for _, part := range []int{0, 1, 2} { // packets of the failed one that were sent
		s := script.New(t, newWideRC, attr(func(a *ib.QPAttr) { a.RetryCnt = 7 }))
		known(s, 2*monotime.Millisecond, true)
		bad := s.SGE(0, 1024)
		bad.LKey++
		var list []ib.SGE
		for i := range part {
			list = append(list, s.SGE(i*1024, 1024))
		}
		s.Post(script.Write(10), script.Write((part+1)*1024).List(append(list, bad)...))
		s.WantDrain("sent", 1+part)
		for range 3 {
			s.Advance(ackTimeout)
			n := 0
			for _, p := range s.Packets() {
				switch {
				case p.PSN == psn+1 && p.Opcode == wire.RCRDMAWriteOnly:
					n++
				case p.PSN == psn+2 && p.Opcode == wire.RCRDMAWriteFirst:
				case p.PSN == psn+3 && p.Opcode == wire.RCRDMAWriteMiddle:
				default:
					t.Errorf("%d packets sent: %v", part, script.Format(&p))
				}
			}
			if n == 0 {
				t.Errorf("%d packets sent: the first is not repeated", part)
			}
			s.Recv(script.Nak(psn+1, wire.NAKPSNSequence))
		}
		s.Recv(script.Ack(psn+1, 2))
		s.WantWC("the first", 2, ib.WCSuccess)
		s.WantWC("the other", 3, ib.WCLocProtErr)
	}
}

// The memory of an outstanding request may be deregistered, against all rules. The probe that needs
// it ends the work request in its turn, and nothing else is sent from the queue.
func TestProbeOfMemoryThatIsGone(t *testing.T) {
	for _, oldest := range []bool{true, false} {
		s := script.New(t, newRC)
		other, err := s.Mem.Register(script.PD, make([]byte, 4096), 1<<30, ib.AccessLocalWrite)
		if err != nil {
			t.Fatal(err)
		}
		gone := ib.SGE{Addr: 1 << 30, Length: 1024, LKey: other.LKey()}
		if oldest {
			s.Post(script.Write(1024).List(gone))
		} else {
			s.Post(script.Write(10), script.Write(1024).List(gone))
		}
		for range 20 { // more than the window holds
			s.Post(script.Write(1024))
		}
		s.Packets()
		if err := s.Mem.Deregister(other); err != nil {
			t.Fatal(err)
		}
		s.Advance(2 * rtt.First)
		if oldest {
			s.Packets()
		} else {
			s.Recv(script.Ack(psn, 1))
			s.WantWC("the first", 1, ib.WCSuccess)
			s.Packets()
			s.Advance(4 * rtt.First)
			s.Packets()
		}
		id := uint64(1)
		if !oldest {
			id = 2
		}
		s.WantWC("whose memory is gone", id, ib.WCLocProtErr)
		for range 20 {
			id++
			s.WantWC("flushed", id, ib.WCWRFlushErr)
		}
		s.WantIdle("over")
	}
}

// Probes put the end of a queue pair off by nothing, whatever is outstanding and known.
func TestDeadPeerIsFoundInTime(t *testing.T) {
	const retries = 3
	for name, learn := range map[string]func(s *script.Script) uint64{
		"unknown": func(s *script.Script) uint64 { return 1 },
		"foreign": func(s *script.Script) uint64 { known(s, 2*monotime.Millisecond, false); return 2 },
		"own":     func(s *script.Script) uint64 { known(s, 2*monotime.Millisecond, true); return 2 },
		"far":     func(s *script.Script) uint64 { known(s, 2*ackTimeout-1, true); return 2 },
	} {
		for _, w := range []script.WR{script.Write(4096), script.Send(10), script.Read(4096),
			script.FetchAdd(1)} {
			s := script.New(t, newRC, attr(func(a *ib.QPAttr) { a.RetryCnt = retries }))
			id := learn(s)
			s.Post(w)
			s.Advance((retries+1)*ackTimeout - 1)
			s.WantNoWC("retries are left")
			s.Advance(1)
			if wc := s.WantWC("dead", id, ib.WCRetryExcErr); wc.VendorErr != ib.VendorTimeout {
				t.Errorf("%s: %v", name, wc.VendorErr)
			}
		}
	}
}

// No probe asks for more READs than the responder takes, nor for one that was not sent.
func TestProbeOfAFullREADWindow(t *testing.T) {
	s := script.New(t, newWideRC, attr(func(a *ib.QPAttr) { a.MaxRdAtomic = 2 }))
	s.Post(script.Read(1024), script.Read(1024), script.Read(1024))
	s.WantDrain("sent", 2)
	for range 5 {
		s.Advance(rtt.First)
		for _, p := range s.Packets() {
			if p.PSN != psn && p.PSN != psn+1 {
				t.Fatalf("%v", script.Format(&p))
			}
		}
	}
	for i := range ib.PSN(3) {
		s.Recv(script.Response(wire.RCRDMAReadResponseOnly, psn+i, script.Bytes(1024, 1)))
		s.WantWC("done", uint64(i)+1, ib.WCSuccess)
	}
}

// An answer after a probe of the packet that is timed measures nothing.
func TestProbeMeasuresNothing(t *testing.T) {
	s := script.New(t, newRC)
	s.Post(script.Write(10))
	s.Advance(rtt.First + monotime.Millisecond)
	s.WantDrain("sent twice", 2)
	s.Recv(script.Ack(psn, 1))
	if got := s.Machine.PathState().RTT; got != 0 {
		t.Errorf("unknown path: a round trip of %v", got)
	}
	for _, own := range []bool{false, true} {
		const trip = 2 * monotime.Millisecond
		s = script.New(t, newRC)
		known(s, trip, own)
		s.Post(script.Write(10))
		s.Advance(3 * trip)
		s.WantDrain("sent twice", 2)
		s.Recv(script.Ack(psn+1, 2))
		if got := s.Machine.PathState().RTT; got != trip {
			t.Errorf("own %v: a round trip of %v", own, got)
		}
		s.WantCount("probes", roce.TailProbe, 1)
	}
}

// A queue pair that changes its path while a probe has not had its turn begins on the other one
// with the oldest packet.
func TestProbeDuringMigration(t *testing.T) {
	s := armed(t)
	s.Post(script.Send(10), script.Send(10))
	s.WantDrain("sent", 2)
	s.Together(func() {
		s.Advance(rtt.First)
		s.Modify(ib.QPAttr{PathMigState: ib.MigMigrated}, ib.QPPathMigState)
	})
	wantMigrated(s, t)
	s.WantPacket("the oldest", wire.RCSendOnly, psn+1)
	s.WantPacket("the newest acknowledgement", wire.RCAcknowledge, peerPSN-1)
	s.WantQuiet("one packet of an unknown path")
	s.RecvFrom(script.Ack(psn+1, 2), otherPeer)
	s.WantPacket("the other", wire.RCSendOnly, psn+2)
}
