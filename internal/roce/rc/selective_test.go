// SPDX-License-Identifier: BSD-2-Clause

package rc_test

import (
	"fmt"
	"slices"
	"testing"

	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/monotime"
	"verbena/internal/roce"
	"verbena/internal/rtt"
	"verbena/internal/testkit/script"
	wire "verbena/internal/wire/roce"
)

// sack makes a SelectiveAcknowledge of a responder that expects gaps[0].First.
func sack(upper ib.PSN, gaps ...wire.Gap) wire.Packet {
	psn := gaps[0].First
	b, _ := wire.SACK{From: psn, Upper: upper, Gaps: gaps}.Append(make([]byte, 0, 256), psn)
	return wire.Packet{BTH: wire.BTH{Opcode: wire.SelectiveAcknowledge, PSN: psn}, Payload: b}
}

// gap is the PSNs from first to last.
func gap(first, last ib.PSN) wire.Gap { return wire.Gap{First: first, End: last + 1} }

// wantSack takes the next packet sent, which must tell of these gaps.
func wantSack(t *testing.T, s *script.Script, why string, upper ib.PSN, gaps ...wire.Gap) {
	t.Helper()
	p := s.WantPacket(why, wire.SelectiveAcknowledge, gaps[0].First)
	got, ok := wire.ParseSACK(p.Payload, p.PSN, nil)
	if !ok || got.From != p.PSN || got.Upper != upper || !slices.Equal(got.Gaps, gaps) {
		t.Fatalf("%s: %+v, %v; want %v up to %v", why, got, ok, gaps, upper)
	}
}

// selective is a WRITE of 10 bytes from a requester that understands SACKs and asks for nothing.
func selective(s *script.Script, psn ib.PSN) wire.Packet {
	p := writeAt(s, psn, int(psn-peerPSN)*10, 10, byte(psn))
	p.Selective, p.AckReq = true, false
	return p
}

// A responder sends a SACK when a gap opens, when one fills but something is missing still, and
// when it is asked. Else it is silent.
func TestSACKSent(t *testing.T) {
	s := script.New(t, newWideRC)
	s.Recv(selective(s, peerPSN+2))
	wantSack(t, s, "a gap", peerPSN+3, gap(peerPSN, peerPSN+1))
	s.Recv(selective(s, peerPSN+3))
	s.WantQuiet("no news")
	s.Recv(selective(s, peerPSN+6))
	wantSack(t, s, "another", peerPSN+7, gap(peerPSN, peerPSN+1), gap(peerPSN+4, peerPSN+5))
	asks := selective(s, peerPSN+7)
	asks.AckReq = true
	s.Recv(asks)
	wantSack(t, s, "asked", peerPSN+8, gap(peerPSN, peerPSN+1), gap(peerPSN+4, peerPSN+5))
	s.Recv(asks)
	wantSack(t, s, "asked by a probe", peerPSN+8, gap(peerPSN, peerPSN+1), gap(peerPSN+4, peerPSN+5))
	s.Recv(selective(s, peerPSN+4))
	wantSack(t, s, "in part", peerPSN+8, gap(peerPSN, peerPSN+1), gap(peerPSN+5, peerPSN+5))
	s.Recv(selective(s, peerPSN))
	s.WantAck("one of the first two", peerPSN, 1)
	wantSack(t, s, "the rest", peerPSN+8, gap(peerPSN+1, peerPSN+1), gap(peerPSN+5, peerPSN+5))
	s.Recv(selective(s, peerPSN+1))
	s.WantAck("the first gap is filled", peerPSN+4, 5)
	wantSack(t, s, "the other is not", peerPSN+8, gap(peerPSN+5, peerPSN+5))
	s.Recv(selective(s, peerPSN+5))
	s.WantAck("all", peerPSN+7, 8)
	s.WantQuiet("nothing is missing")
	for i := range ib.PSN(8) {
		s.WantMemory("in place", int(i)*10, script.Bytes(10, byte(peerPSN+i)))
	}
	s.WantCount("SACKs", roce.SentSACK, 7)
	s.WantCount("instead of NAKs", roce.SentSeqNAK, 0)
}

// A requester that does not say that it understands SACKs gets a NAK, as does one whose requests
// cannot be kept.
func TestNAKWithoutSACK(t *testing.T) {
	s := script.New(t, newWideRC, budget(mem.NewBudget(0)))
	s.Recv(selective(s, peerPSN+1))
	s.WantNak("nothing is kept", peerPSN, wire.NAKPSNSequence)
	s = script.New(t, newWideRC)
	s.Recv(writeAt(s, peerPSN+1, 0, 10, 1))
	s.WantNak("does not understand", peerPSN, wire.NAKPSNSequence)
	s.Recv(selective(s, peerPSN+2))
	s.WantQuiet("no news for one that does")
}

// Gaps that do not fit a SACK are told of by the next, and then it begins anew.
func TestSACKInParts(t *testing.T) {
	s := script.New(t, newWideRC, attr(func(a *ib.QPAttr) { a.PathMTU = ib.MTU256 }))
	const gaps = 200 // two bytes each
	s.Together(func() {
		for i := range ib.PSN(gaps) {
			s.Recv(selective(s, peerPSN+1+2*i))
		}
	})
	want := peerPSN
	for range 3 {
		p := s.WantPacket("a part", wire.SelectiveAcknowledge, peerPSN)
		got, ok := wire.ParseSACK(p.Payload, p.PSN, nil)
		if !ok || got.From != want || len(p.Payload) > 256 {
			t.Fatalf("from %v, want %v; %v; %d bytes", got.From, want, ok, len(p.Payload))
		}
		if want = got.Upper; want == peerPSN+2*gaps {
			want = peerPSN
		}
		asks := selective(s, peerPSN+1)
		asks.AckReq = true
		s.Recv(asks)
	}
	if want == peerPSN {
		t.Error("all in one")
	}
}

// A target answers an initiator as a responder answers a requester.
func TestXRCSACK(t *testing.T) {
	x := newTarget(t)
	p := forSRQ(ours, writeAt(x.Script, peerPSN+1, 0, 10, 1))
	p.Selective = true
	x.Recv(p)
	wantSack(t, x.Script, "a gap", peerPSN+2, gap(peerPSN, peerPSN))
}

// Requests say that the requester understands SACKs, and responses that the responder sends them.
func TestSelectiveBit(t *testing.T) {
	s := script.New(t, newWideRC)
	s.Post(script.Write(10), script.Send(10), script.Read(10), script.FetchAdd(1))
	for i, p := range s.WantDrain("all", 4) {
		if !p.Selective {
			t.Errorf("packet %d", i)
		}
	}
	s.Recv(readAt(s, peerPSN, 0, 10))
	if p := s.WantPacket("response", wire.RCRDMAReadResponseOnly, peerPSN); !p.Selective {
		t.Error("the response")
	}
}

// sender returns a script that has sent n packets of a WRITE, which stay to be acknowledged.
func sender(t *testing.T, n int, options ...func(*script.Setup)) *script.Script {
	s := script.New(t, newWideRC, options...)
	s.Post(script.Write(n * 1024))
	s.WantDrain("sent", n)
	return s
}

// Only missing packets are repeated, at once. That counts as no retry.
func TestRepeatOnlyWhatIsMissing(t *testing.T) {
	s := sender(t, 20, attr(func(a *ib.QPAttr) { a.RetryCnt = 0 }))
	s.Recv(sack(psn+10, gap(psn+2, psn+3), gap(psn+7, psn+7)))
	s.WantPacket("first gap", wire.RCRDMAWriteMiddle, psn+2)
	s.WantPacket("first gap", wire.RCRDMAWriteMiddle, psn+3)
	s.WantPacket("second gap", wire.RCRDMAWriteMiddle, psn+7)
	s.WantQuiet("that is all")
	s.Recv(sack(psn+11, gap(psn+2, psn+3), gap(psn+7, psn+7)))
	s.WantQuiet("they are on their way")
	s.Post(script.Send(10))
	s.WantPacket("what is new goes on behind", wire.RCSendOnly, psn+20)
	s.Recv(script.Ack(psn+19, 1))
	s.WantWC("the WRITE", 1, ib.WCSuccess)
	s.Recv(script.Ack(psn+20, 2))
	s.WantWC("the SEND", 2, ib.WCSuccess)
	s.WantCount("repeated", roce.Retransmitted, 3)
	s.WantIdle("done")
}

// A repetition that is lost goes a third time when a packet that was sent later arrives: another
// repetition, or a new packet.
func TestLostAgain(t *testing.T) {
	s := sender(t, 20)
	s.Recv(sack(psn+10, gap(psn, psn), gap(psn+5, psn+5)))
	s.WantDrain("both", 2)
	s.Recv(sack(psn+12, gap(psn, psn)))
	s.WantPacket("the second arrived, the first did not", wire.RCRDMAWriteFirst, psn)
	s.Recv(sack(psn+20, gap(psn, psn)))
	s.WantQuiet("all this was sent before")
	s.Post(script.Send(10))
	s.WantPacket("new", wire.RCSendOnly, psn+20)
	s.Recv(sack(psn+21, gap(psn, psn)))
	s.WantPacket("it arrived, the first did not", wire.RCRDMAWriteFirst, psn)
	s.Recv(script.Ack(psn+20, 2))
	s.WantWC("the WRITE", 1, ib.WCSuccess)
	s.WantWC("the SEND", 2, ib.WCSuccess)
}

// Few packets lost by chance do not end the first slow start of a long path. Many do.
func TestChanceDoesNotEndSlowStart(t *testing.T) {
	const trip = 50 * monotime.Millisecond
	for _, c := range []struct {
		sent, lost ib.PSN
		shrinks    bool
	}{{20, 8, false}, {20, 9, true}, {64, 8, false}, {64, 9, true}} {
		s := script.New(t, newWideRC)
		s.Post(script.Write(10))
		s.Packets()
		s.Advance(trip)
		s.Recv(script.Ack(psn, 1))
		s.Post(script.Write(int(c.sent) * 1024))
		s.Packets()
		for s.Advance(trip / 8); s.Machine.PathState().InFlight < int64(c.sent)*1024; s.Advance(trip / 8) {
			s.Packets() // the window is paced
		}
		before := s.Machine.PathState().WindowBytes
		s.Recv(sack(psn+1+c.sent, gap(psn+2, psn+1+c.lost)))
		s.Packets()
		if got := s.Machine.PathState().WindowBytes < before; got != c.shrinks {
			t.Errorf("%d of %d lost: the window shrinks: %v", c.lost, c.sent, got)
		}
	}
}

// An acknowledgement tells nothing of the gaps after it: they may be filled by now.
func TestAckIsNoEvidence(t *testing.T) {
	s := sender(t, 20)
	s.Recv(sack(psn+15, gap(psn, psn), gap(psn+5, psn+5), gap(psn+9, psn+9)))
	s.WantDrain("three", 3)
	s.Recv(sack(psn+15, gap(psn, psn), gap(psn+9, psn+9)))
	s.WantPacket("the first again", wire.RCRDMAWriteFirst, psn)
	s.Recv(script.Ack(psn+8, 0))
	s.WantQuiet("the third was repeated before that, and its SACK may be lost")
}

// A SACK that is malformed, late, or of PSNs never sent does nothing. One that withdraws an earlier
// report makes no hole.
func TestSACKThatLies(t *testing.T) {
	s := sender(t, 10)
	s.Recv(sack(psn+12, gap(psn, psn)))
	s.WantCount("past the newest", roce.BadResponse, 1)
	s.Recv(sack(psn+30, gap(psn+20, psn+21)))
	s.Recv(sack(psn+2, gap(psn-5, psn-5)))
	s.WantCount("of others", roce.StaleAck, 2)
	bad := sack(psn+2, gap(psn, psn))
	bad.Payload = bad.Payload[:2]
	s.Recv(bad)
	bad.Payload = nil
	s.Recv(bad)
	s.WantCount("malformed", roce.BadResponse, 3)
	s.WantQuiet("nothing")
	s.Recv(sack(psn+8, gap(psn+4, psn+4)))
	s.WantPacket("the truth", wire.RCRDMAWriteMiddle, psn+4)
	s.Recv(sack(psn+8, gap(psn+4, psn+6)))
	s.WantQuiet("two were there before")
	s.Recv(sack(psn+6, gap(psn+1, psn+4)))
	s.WantCount("late", roce.StaleAck, 3)
	s.Recv(script.Ack(psn+9, 1))
	s.WantWC("done", 1, ib.WCSuccess)
	s.WantIdle("done")
}

// A peer that says for ever that the same is missing gets it now and then, until the retries are
// used up.
func TestSACKForEver(t *testing.T) {
	s := sender(t, 10, attr(func(a *ib.QPAttr) { a.RetryCnt = 1 }))
	for range 3000 {
		s.Recv(sack(psn+10, gap(psn, psn)))
		s.Advance(monotime.Millisecond)
	}
	if wc := s.WantWC("given up", 1, ib.WCRetryExcErr); wc.VendorErr != ib.VendorTimeout {
		t.Error(wc.VendorErr)
	}
	if n := len(s.Packets()); n > 200 {
		t.Errorf("%d packets for 3,000 SACKs", n)
	}
}

// After something was late and not lost, a gap is waited for before it is repeated.
func TestReorderingIsWaitedFor(t *testing.T) {
	s := script.New(t, newWideRC)
	s.Post(script.Send(10))
	s.WantDrain("to learn the round trip", 1)
	s.Advance(8 * monotime.Millisecond)
	s.Recv(script.Ack(psn, 1))
	s.WantWC("8 ms", 1, ib.WCSuccess)
	s.Post(script.Write(20 * 1024))
	s.Advance(monotime.Millisecond)
	s.WantDrain("sent, at the pace of a long path", 20)
	s.Recv(sack(psn+5, gap(psn+1, psn+2)))
	s.WantDrain("nothing was ever late: at once", 2)
	s.Recv(sack(psn+10, gap(psn+1, psn+2), gap(psn+7, psn+8)))
	s.WantDrain("again", 2)
	s.Recv(script.Ack(psn+9, 1))
	s.Together(func() { // both before it may send
		s.Recv(sack(psn+15, gap(psn+11, psn+11)))
		s.Recv(script.Ack(psn+14, 1))
	})
	s.WantQuiet("that was late")
	s.Recv(sack(psn+18, gap(psn+16, psn+16)))
	s.WantQuiet("this may be, too")
	s.Advance(250*monotime.Microsecond - 1)
	s.WantQuiet("a quarter of the shortest round trip, which is 1 ms now")
	s.Advance(1)
	s.WantPacket("it is lost", wire.RCRDMAWriteMiddle, psn+16)
}

// A time-out has all gaps repeated once more, and a probe go first: the window may be full of
// packets that are lost. The next goes back as far as nothing is known: the
// responder may have forgotten.
func TestTimeoutWithGaps(t *testing.T) {
	const psn = psn + 1
	s := sender(t, 1)
	s.Advance(monotime.Millisecond / 2)
	s.Recv(script.Ack(psn-1, 1)) // the round trip is known
	s.WantWC("the first", 1, ib.WCSuccess)
	s.Post(script.Write(10 * 1024))
	s.WantDrain("sent", 10)
	s.Recv(sack(psn+9, gap(psn+1, psn+1), gap(psn+5, psn+5)))
	s.WantDrain("both", 2)
	const wait = monotime.Millisecond/2 + rtt.Least
	s.Advance(wait)
	s.WantPacket("the newest, whose answer has all gaps", wire.RCRDMAWriteLast, psn+9)
	s.WantPacket("once more", wire.RCRDMAWriteMiddle, psn+1)
	s.WantPacket("once more", wire.RCRDMAWriteMiddle, psn+5)
	s.WantQuiet("no more")
	s.Advance(2 * wait)
	s.WantPacket("from the oldest", wire.RCRDMAWriteMiddle, psn+1)
	s.Packets()
	s.Recv(sack(psn+9, gap(psn+5, psn+5)))
	s.WantPacket("it remembers", wire.RCRDMAWriteMiddle, psn+5)
	s.WantPacket("and what was after its newest is lost, too", wire.RCRDMAWriteLast, psn+9)
	s.WantQuiet("nothing else")
	s.Recv(script.Ack(psn+9, 2))
	s.WantWC("done", 2, ib.WCSuccess)
}

// Where READs are outstanding, too, a SACK has only the requests repeated that it names. READs that
// the responder keeps are answered after that.
func TestSACKWithRead(t *testing.T) {
	s := script.New(t, newWideRC)
	s.Post(script.Write(3*1024), script.Read(2048), script.Read(1024))
	s.WantDrain("sent", 5)
	s.Recv(sack(psn+6, gap(psn+1, psn+1), gap(psn+3, psn+4)))
	s.WantPacket("the WRITE's second", wire.RCRDMAWriteMiddle, psn+1)
	if p := s.WantPacket("the first READ", wire.RCRDMAReadRequest, psn+3); p.RETH.DMALen != 2048 {
		t.Errorf("%+v", p.RETH)
	}
	s.WantQuiet("no more")
	s.Recv(script.Ack(psn+2, 1))
	s.WantWC("the WRITE", 1, ib.WCSuccess)
	s.Recv(script.Response(wire.RCRDMAReadResponseFirst, psn+3, script.Bytes(1024, 1)))
	s.Recv(script.Response(wire.RCRDMAReadResponseLast, psn+4, script.Bytes(1024, 2)))
	s.WantWC("the first READ", 2, ib.WCSuccess)
	s.WantNoWC("the other was kept, which is no answer")
	s.Recv(script.Response(wire.RCRDMAReadResponseOnly, psn+5, script.Bytes(1024, 3)))
	s.WantWC("the other READ", 3, ib.WCSuccess)
	s.WantIdle("done")
}

// An RNR NAK has the requester go back after its wait, and no SACK before.
func TestSACKAndRNR(t *testing.T) {
	s := script.New(t, newWideRC)
	s.Post(script.Send(1), script.Send(2), script.Send(3), script.Send(4))
	s.WantDrain("sent", 4)
	s.Recv(sack(psn+3, gap(psn+1, psn+1)))
	s.WantWC("the first", 1, ib.WCSuccess)
	s.WantPacket("the second", wire.RCSendOnly, psn+1)
	s.Recv(script.RNR(psn+1, 1))
	s.Recv(sack(psn+4, gap(psn+1, psn+1)))
	s.WantQuiet("the peer is not ready")
	s.Advance(monotime.Millisecond)
	s.WantPacket("now it is", wire.RCSendOnly, psn+1)
	s.Recv(script.Ack(psn+3, 4))
	for i := range uint64(3) {
		s.WantWC("all", 2+i, ib.WCSuccess)
	}
	s.WantIdle("done")
}

// An RNR NAK is waited out although the answer of an earlier atomic is missing. The SEND and the
// atomic go again after the wait, and the missing answer spends no rnr_retry. (Simulation, seed
// 6084974: the requester went back at once. Each copy drew an RNR NAK and SACKs, for more copies.)
func TestRNRBehindMissingResponse(t *testing.T) {
	const rnrRetry, code = 3, 14 // 1.28 ms
	s := script.New(t, newWideRC, attr(func(a *ib.QPAttr) { a.RNRRetry = rnrRetry }))
	s.Post(script.FetchAdd(1), script.Send(1), script.Write(1))
	s.WantDrain("sent", 3)
	for range rnrRetry + 1 {
		s.Recv(script.RNR(psn+1, code))
		s.Recv(sack(psn+3, gap(psn+1, psn+1)))
		s.Recv(script.RNR(psn+1, code)) // repeated by the network
		s.WantQuiet("the peer is not ready")
		s.Advance(wire.RNRTimer(code) - 1)
		s.WantQuiet("not before the timer")
		s.Advance(1)
		s.WantPacket("its answer was lost", wire.RCFetchAdd, psn)
		s.WantPacket("then the SEND", wire.RCSendOnly, psn+1)
		s.WantQuiet("the WRITE has arrived")
	}
	s.Recv(script.AtomicAck(psn, 42))
	s.WantWC("the atomic", 1, ib.WCSuccess)
	for range rnrRetry {
		s.Recv(script.RNR(psn+1, code))
		s.Advance(wire.RNRTimer(code))
	}
	s.WantNoWC("as often as rnr_retry allows")
	s.Recv(script.RNR(psn+1, code))
	s.WantWC("once more", 2, ib.WCRNRRetryExcErr)
}

// A peer that answers RNR NAKs and never the atomic before them does not hold the queue pair for
// ever, although rnr_retry has no limit. An atomic that was asked for again and is overdue takes
// one of retry_cnt with the next of them.
func TestRNRForEverBehindMissingResponse(t *testing.T) {
	const retryCnt, code = 2, 14 // 1.28 ms
	for name, told := range map[string]bool{"foreign": false, "of Verbena": true} {
		t.Run(name, func(t *testing.T) {
			s := script.New(t, newRC, attr(func(a *ib.QPAttr) { a.RNRRetry, a.RetryCnt = 7, retryCnt }))
			s.Post(script.FetchAdd(1), script.Send(1), script.Write(1))
			s.WantDrain("sent", 3)
			for s.Machine.State() != ib.QPErr && s.Now < monotime.Time(monotime.Second) {
				s.WantNoWC("retries are left")
				s.Recv(script.RNR(psn+1, code))
				if told {
					s.Recv(sack(psn+3, gap(psn+1, psn+1)))
				}
				s.Advance(wire.RNRTimer(code))
				if s.Machine.State() != ib.QPErr {
					s.WantPacket("its answer is missing", wire.RCFetchAdd, psn)
					s.Packets()
				}
			}
			s.WantWC("the atomic is given up", 1, ib.WCRetryExcErr)
			if least := monotime.Time((retryCnt + 1) * rtt.Least); s.Now < least {
				t.Errorf("after %v, want a time-out for each retry: %v", s.Now, least)
			}
		})
	}
}

// A second RNR NAK may answer an earlier copy while the atomic, which was asked for again, is on
// its way. It takes none of retry_cnt: only one that comes when the answer is overdue does. So it
// is although the path is longer than the first time-outs.
func TestRNRTwiceInFlightBehindMissingResponse(t *testing.T) {
	const trip, code = 50 * monotime.Millisecond, 1 // 10 µs
	for _, known := range []bool{false, true} {
		t.Run(fmt.Sprintf("known=%v", known), func(t *testing.T) {
			s := script.New(t, newRC, attr(func(a *ib.QPAttr) { a.RNRRetry, a.RetryCnt = 7, 0 }))
			at, wr := psn, uint64(1)
			for known && s.Machine.PathState().RTT != trip {
				s.Post(script.Write(10))
				s.Advance(trip)
				s.Recv(script.Ack(at, 0))
				s.WantWC("to learn the round trip", wr, ib.WCSuccess)
				at, wr = at+1, wr+1
			}
			s.Post(script.FetchAdd(1), script.Send(1))
			s.Advance(trip)
			for range 3 {
				s.Recv(script.RNR(at+1, code))
				s.WantNoWC("the answer is on its way")
				s.Advance(trip / 3)
			}
			s.Recv(script.AtomicAck(at, 42))
			s.WantWC("the atomic", wr, ib.WCSuccess)
			s.Recv(script.Ack(at+1, 0))
			s.WantWC("the SEND", wr+1, ib.WCSuccess)
		})
	}
}

// Work whose memory is gone cannot be repeated: it ends with its error when it is the oldest.
func TestRepeatWithoutMemory(t *testing.T) {
	s := script.New(t, newWideRC)
	s.Post(script.Send(1000), script.Send(1000), script.Send(1000))
	s.WantDrain("sent", 3)
	if err := s.Mem.Deregister(s.MR); err != nil {
		t.Fatal(err)
	}
	s.Recv(sack(psn+3, gap(psn+1, psn+1)))
	s.WantWC("the first arrived", 1, ib.WCSuccess)
	s.WantWC("the second cannot", 2, ib.WCLocProtErr)
	s.WantWC("the third is flushed", 3, ib.WCWRFlushErr)
	s.WantState("over", ib.QPErr)
}

// An end that is over, and one that sends nothing, take no SACK.
func TestSACKUnexpected(t *testing.T) {
	s := sender(t, 3)
	s.SetState(ib.QPErr)
	s.Recv(sack(psn+2, gap(psn, psn)))
	s.WantCount("over", roce.DroppedState, 1)
	x := newTarget(t)
	x.Recv(sack(psn+2, gap(psn, psn)))
	x.WantCount("a target sends nothing", roce.UnexpectedPacket, 1)
}

// An acknowledgement during the wait of an RNR NAK may leave nothing to be sent again, as a SACK
// told that the rest has arrived. Whether it was refused, too, the time-out finds out.
func TestSACKDuringRNR(t *testing.T) {
	s := script.New(t, newWideRC)
	s.Post(script.Send(1), script.Send(2), script.Send(3))
	s.WantDrain("sent", 3)
	s.Recv(script.RNR(psn, 14))
	s.Recv(sack(psn+3, gap(psn, psn)))
	s.Recv(script.Ack(psn, 1))
	s.WantWC("a copy of the first found a receive", 1, ib.WCSuccess)
	s.WantQuiet("still waiting")
	s.Advance(monotime.Second)
	s.WantPacket("is the rest there?", wire.RCSendOnly, psn+2)
	s.Packets()
	s.Recv(script.Ack(psn+2, 3))
	s.WantWC("it is", 2, ib.WCSuccess)
	s.WantWC("it is", 3, ib.WCSuccess)
	s.WantIdle("done")
}

// A packet that arrives sooner than a round trip after its repetition was late. The requester then
// waits before it repeats the next gap.
func TestRepeatedInVain(t *testing.T) {
	s := script.New(t, newWideRC)
	s.Post(script.Send(10))
	s.WantDrain("to learn the round trip", 1)
	s.Advance(8 * monotime.Millisecond)
	s.Recv(script.Ack(psn, 1))
	s.WantWC("8 ms", 1, ib.WCSuccess)
	s.Post(script.Write(20 * 1024))
	s.Advance(monotime.Millisecond)
	s.WantDrain("sent", 20)
	s.Advance(7 * monotime.Millisecond)
	s.Recv(sack(psn+5, gap(psn+1, psn+2)))
	s.WantDrain("at once", 2)
	s.Advance(monotime.Millisecond)
	s.Recv(script.Ack(psn+4, 1))
	s.Recv(sack(psn+9, gap(psn+7, psn+7)))
	s.WantQuiet("this may be late, too")
	s.Advance(2*monotime.Millisecond - 1)
	s.WantQuiet("a quarter of the round trip")
	s.Advance(1)
	s.WantPacket("it is lost", wire.RCRDMAWriteMiddle, psn+7)
}

// A SACK during the wait of an RNR NAK does not start a timer without the local ACK time-out: a
// peer that is gone afterwards uses up the retries.
func TestSACKDuringRNRAndSilence(t *testing.T) {
	s := script.New(t, newWideRC, attr(func(a *ib.QPAttr) { a.RetryCnt = 1 }))
	s.Post(script.Send(1), script.Send(2), script.Send(3), script.Send(4))
	s.WantDrain("sent", 4)
	s.Recv(script.RNR(psn, 14))
	s.Recv(sack(psn+4, gap(psn, psn), gap(psn+2, psn+2)))
	s.Recv(sack(psn+4, gap(psn, psn)))
	s.Advance(4 * ackTimeout)
	s.WantWC("given up", 1, ib.WCRetryExcErr)
}
