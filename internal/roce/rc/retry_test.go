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

// ackTimeout is the requester's wait with Timeout 14: four times 67 ms.
const ackTimeout = 4 * 4096 * monotime.Nanosecond << 14

// Time-outs are drawn out to the most that the specification allows.
func TestAckTimeout(t *testing.T) {
	for code, want := range map[uint8]monotime.Duration{
		1: 32768 * monotime.Nanosecond, 8: 4194304 * monotime.Nanosecond, 14: ackTimeout, 16: 4 * ackTimeout,
		17: 8 * ackTimeout, 24: 1024 * ackTimeout,
	} {
		s := script.New(t, newRC, attr(func(a *ib.QPAttr) { a.Timeout, a.RetryCnt = code, 0 }))
		s.Post(script.Write(10))
		s.Advance(want - 1)
		s.WantNoWC("not before the time-out")
		s.Advance(1)
		s.WantWC("there is no retry", 1, ib.WCRetryExcErr)
	}
}

// A peer whose process gets no processor for long is not lost: Timeout 14 and
// RetryCnt 7, as perftest has them, are given up after 2 s.
func TestPeerHeldUp(t *testing.T) {
	s := script.New(t, newRC, attr(func(a *ib.QPAttr) { a.RetryCnt = 7 }))
	s.Post(script.Write(2))
	s.Advance(1500 * monotime.Millisecond)
	s.WantNoWC("it is waited for")
	s.Recv(script.Ack(psn, 1))
	s.WantWC("and is back", 1, ib.WCSuccess)
}

// While no round trip is known a time-out repeats a packet or two, and the window stays: the path
// may be longer than the time-outs.
func TestProbesOfAnUnknownPath(t *testing.T) {
	s := script.New(t, newWideRC)
	s.Post(script.Write(4096))
	s.WantDrain("sent", 4)
	window := s.Machine.PathState().WindowBytes
	s.Advance(rtt.First)
	s.WantPacket("the newest", wire.RCRDMAWriteLast, psn+3)
	s.Advance(rtt.First)
	s.WantPacket("the oldest, too: a foreign responder may wait for it", wire.RCRDMAWriteFirst, psn)
	s.WantPacket("and the newest", wire.RCRDMAWriteLast, psn+3)
	s.WantQuiet("that is all")
	if got := s.Machine.PathState().WindowBytes; got != window {
		t.Errorf("a window of %d bytes, was %d", got, window)
	}
	s.Recv(script.Ack(psn+3, 1))
	s.WantWC("done", 1, ib.WCSuccess)

	s = script.New(t, newWideRC)
	s.Post(script.Read(2048), script.Read(1024))
	s.WantDrain("sent", 2)
	s.Advance(rtt.First)
	s.WantPacket("the oldest READ", wire.RCRDMAReadRequest, psn)
	s.WantQuiet("that is all")
	s.Advance(rtt.First)
	s.WantPacket("again", wire.RCRDMAReadRequest, psn)
	s.WantQuiet("that is all")
}

// A first answer after many losses makes the path look longer than the local ACK time-out. Each
// time-out then sends the newest packet again, so that losses alone do not use up retry_cnt.
func TestRoundTripThatBeganWithLosses(t *testing.T) {
	s := script.New(t, newRC, attr(func(a *ib.QPAttr) { a.Timeout, a.RetryCnt = 12, 7 }))
	s.Post(script.Write(10))
	s.Advance(ackTimeout - 1)
	s.Packets()
	s.Recv(script.Ack(psn, 1))
	s.WantWC("answered after four time-outs", 1, ib.WCSuccess)
	s.Post(script.Write(10))
	s.WantPacket("sent", wire.RCRDMAWriteOnly, psn+1)
	for range 7 {
		s.Advance(ackTimeout / 4)
		s.WantPacket("again", wire.RCRDMAWriteOnly, psn+1)
	}
	s.Recv(script.Ack(psn+1, 2))
	s.WantWC("done", 2, ib.WCSuccess)
}

// retry_cnt time-outs are survived; another ends the queue pair. The test names the time, within
// the margin that tail probes may add.
func TestRetryCntExhausted(t *testing.T) {
	for _, cnt := range []uint8{0, 1, 3, 7} {
		s := script.New(t, newRC, attr(func(a *ib.QPAttr) { a.RetryCnt = cnt }))
		s.Post(script.Write(10), script.Send(1), script.Send(1).Unsignaled())
		s.Advance(ackTimeout*monotime.Duration(cnt+1) - monotime.Microsecond)
		s.WantNoWC("retries are left")
		s.Advance(2 * monotime.Microsecond)
		wc := s.WantWC("the oldest ends with the reason", 1, ib.WCRetryExcErr)
		if wc.VendorErr != ib.VendorTimeout {
			t.Fatal(wc.VendorErr)
		}
		s.WantWC("the others are flushed", 2, ib.WCWRFlushErr)
		s.WantWC("also where not signaled", 3, ib.WCWRFlushErr)
		s.WantState("over", ib.QPErr)
		s.WantCount("time-outs", roce.LocalACKTimeout, uint64(cnt)+1)
		s.WantCount("its end", roce.RetryExceeded, 1)
		s.Packets()
		s.Advance(10 * monotime.Second)
		s.WantIdle("nothing more is sent")
	}
}

// Progress gives all retries back.
func TestRetryCntRestored(t *testing.T) {
	s := script.New(t, newRC, attr(func(a *ib.QPAttr) { a.RetryCnt = 1 }))
	s.Post(script.Write(4096))
	for i := range ib.PSN(4) {
		s.Advance(ackTimeout + ackTimeout/2)
		s.WantNoWC("one retry a packet is enough")
		s.Recv(script.Ack(psn+i, 0))
	}
	s.WantWC("done", 1, ib.WCSuccess)
}

// Posting more work does not put the time-out off.
func TestTimeoutNotRestartedByPosting(t *testing.T) {
	s := script.New(t, newRC, attr(func(a *ib.QPAttr) { a.RetryCnt = 0 }))
	for i := range 6 {
		s.Post(script.Send(1))
		s.WantNoWC("still waiting")
		if i < 5 {
			s.Advance(ackTimeout/6 + 1)
		}
	}
	s.Advance(ackTimeout / 6)
	s.WantWC("the first was never acknowledged", 1, ib.WCRetryExcErr)
}

// Timeout 0 stands for no time-out at all: probes go on, the queue pair lives.
func TestNoTimeout(t *testing.T) {
	s := script.New(t, newRC, attr(func(a *ib.QPAttr) { a.Timeout = 0; a.RetryCnt = 0 }))
	s.Post(script.Write(10))
	s.Advance(100 * monotime.Second)
	s.WantNoWC("waits for ever")
	s.Recv(script.Ack(psn, 1))
	s.WantWC("and is answered in the end", 1, ib.WCSuccess)
}

// NAKs for the same PSN use up retry_cnt too.
func TestSequenceNAKsExhausted(t *testing.T) {
	s := script.New(t, newRC)
	s.Post(script.Write(4096))
	for range 3 {
		s.Recv(script.Nak(psn+1, wire.NAKPSNSequence))
		s.WantNoWC("retries are left")
		s.Advance(monotime.Millisecond)
	}
	s.Recv(script.Nak(psn+1, wire.NAKPSNSequence))
	if wc := s.WantWC("given up", 1, ib.WCRetryExcErr); wc.VendorErr != ib.VendorSequence {
		t.Fatal(wc.VendorErr)
	}
}

// A peer that acknowledges a WRITE again and again, and never answers the READ before it, uses up
// retry_cnt: after a time-out nothing that it says is news.
func TestReadNeverAnswered(t *testing.T) {
	for name, other := range map[string]func(s *script.Script){
		"WRITE": func(s *script.Script) { s.Recv(script.Ack(psn+1, 2)) },
		"READ": func(s *script.Script) {
			s.Recv(script.Response(wire.RCRDMAReadResponseOnly, psn+1, script.Bytes(100, 1)))
		},
		"foreign READ": func(s *script.Script) {
			p := script.Response(wire.RCRDMAReadResponseOnly, psn+1, script.Bytes(100, 1))
			p.Selective = false
			s.Recv(p)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := script.New(t, newRC)
			second := script.Read(100)
			if name == "WRITE" {
				second = script.Write(100)
			}
			s.Post(script.Read(100), second)
			for end := s.Now.Add(60 * monotime.Second); s.Now < end; s.Advance(monotime.Millisecond) {
				s.Packets()
				other(s)
				if s.Machine.State() == ib.QPErr {
					s.WantWC("the READ is given up", 1, ib.WCRetryExcErr)
					return
				}
			}
			t.Fatal("the peer holds the queue pair")
		})
	}
}

// An RNR NAK is waited out as its timer code says, then the message goes again.
func TestRNRTimer(t *testing.T) {
	for code := range uint8(32) {
		s := script.New(t, newRC)
		wait := wire.RNRTimer(code)
		s.Post(script.Send(2000), script.Send(1))
		s.WantDrain("sent", 3)
		s.Recv(script.RNR(psn, code))
		s.Advance(wait - 1)
		s.WantQuiet("not before the timer")
		s.Advance(1)
		s.WantPacket("then all again", wire.RCSendFirst, psn)
		s.WantPacket("then all again", wire.RCSendLast, psn+1)
		s.WantPacket("then all again", wire.RCSendOnly, psn+2)
		s.Recv(script.Ack(psn+2, 2))
		s.WantWC("first", 1, ib.WCSuccess)
		s.WantWC("second", 2, ib.WCSuccess)
		s.WantIdle("done")
	}
}

func TestRNRRetryExhausted(t *testing.T) {
	s := script.New(t, newRC)
	s.Post(script.Write(1), script.Send(1), script.Send(1))
	for range 3 {
		s.Packets()
		s.Recv(script.RNR(psn+1, 1))
		s.Recv(script.RNR(psn+1, 1)) // repeated by the network: counts once
		s.Advance(20 * monotime.Microsecond)
	}
	s.WantWC("what came before is acknowledged", 1, ib.WCSuccess)
	s.WantNoWC("three times is allowed")
	s.Recv(script.RNR(psn+1, 1))
	s.WantWC("the fourth is one too many", 2, ib.WCRNRRetryExcErr)
	s.WantCount("its end", roce.RNRRetryExceeded, 1)
	s.WantWC("flushed", 3, ib.WCWRFlushErr)
	s.WantState("over", ib.QPErr)
}

// rnr_retry 7 never runs out, and RNR NAKs do not use up retry_cnt.
func TestRNRRetryInfinite(t *testing.T) {
	s := script.New(t, newRC, attr(func(a *ib.QPAttr) { a.RNRRetry = 7; a.RetryCnt = 0 }))
	s.Post(script.Send(1))
	for range 1000 {
		s.WantPacket("again", wire.RCSendOnly, psn)
		s.Recv(script.RNR(psn, 14))
		s.WantQuiet("waiting")
		s.Advance(wire.RNRTimer(14))
	}
	s.Recv(script.Ack(psn, 1))
	s.WantWC("in the end", 1, ib.WCSuccess)
}

// Each NAK ends the oldest work request with the status of its code, at once.
func TestErrorNAKs(t *testing.T) {
	for code, want := range map[wire.Syndrome]ib.WCStatus{
		wire.NAKInvalidRequest:    ib.WCRemInvReqErr,
		wire.NAKRemoteAccess:      ib.WCRemAccessErr,
		wire.NAKRemoteOperational: ib.WCRemOpErr,
		wire.NAKInvalidRD:         ib.WCBadRespErr, // no RD here: not an answer to anything
	} {
		s := script.New(t, newRC)
		s.Post(script.Send(1), script.Write(5000), script.Read(100), script.Send(1))
		s.Recv(script.Nak(psn+1, code))
		s.WantWC("before it all was well", 1, ib.WCSuccess)
		s.WantWC("refused", 2, want)
		s.WantWC("flushed", 3, ib.WCWRFlushErr)
		s.WantWC("flushed", 4, ib.WCWRFlushErr)
		s.WantState("over", ib.QPErr)
		s.Packets()
		s.Post(script.Send(1))
		s.WantWC("posted in the error state", 5, ib.WCWRFlushErr)
		s.WantIdle("no retry, no timer")
	}
}

// A NAK that names a packet outside the outstanding ones is a ghost.
func TestStaleNAK(t *testing.T) {
	s := script.New(t, newRC)
	s.Post(script.Write(10))
	s.Recv(script.Ack(psn, 1))
	s.WantWC("done", 1, ib.WCSuccess)
	s.Recv(script.Nak(psn, wire.NAKRemoteAccess))
	s.Recv(script.Nak(psn+1, wire.NAKRemoteAccess))
	s.Recv(script.Nak(psn+1, wire.NAKPSNSequence))
	s.WantState("unharmed", ib.QPRTS)
}

// A responder as Linux's rxe sends one NAK for a gap, and then waits for the expected packet.
// Where the NAK is lost, or the packet that is repeated, the requester asks after two round trips:
// the oldest packet ends the silence, and the newest brings another NAK.
func TestProbeOfSilentResponder(t *testing.T) {
	const trip = 2 * monotime.Millisecond
	for _, naked := range []bool{false, true} {
		s := script.New(t, newWideRC)
		s.Post(script.Write(10))
		s.WantDrain("sent", 1)
		s.Advance(trip)
		s.Recv(script.Ack(psn, 1)) // the path is long, the responder foreign
		s.WantWC("the first", 1, ib.WCSuccess)
		s.Post(script.Write(6*1024), script.Write(10))
		s.WantDrain("sent", 7)
		s.Advance(trip)
		s.Recv(script.Ack(psn+1, 1))
		if naked {
			s.Recv(script.Nak(psn+2, wire.NAKPSNSequence))
			s.WantDrain("repeated", 1)
			s.Advance(trip / 8)
			s.WantDrain("after a rest", 5)
		}
		s.Advance(3 * trip)
		if p := s.WantPacket("the oldest", wire.RCRDMAWriteMiddle, psn+2); !p.AckReq {
			t.Error("it asks for no answer")
		}
		s.WantPacket("the newest", wire.RCRDMAWriteOnly, psn+7)
		s.WantQuiet("that will do")
		s.Recv(script.Ack(psn+2, 1))
		s.Recv(script.Nak(psn+4, wire.NAKPSNSequence))
		s.WantDrain("at once", 1) // and no burst, since a short buffer would drop a part of it
		s.Advance(trip / 8)
		s.WantDrain("after a rest", 3)
		s.Recv(script.Ack(psn+7, 3))
		s.WantWC("the second", 2, ib.WCSuccess)
		s.WantWC("the third", 3, ib.WCSuccess)
		s.WantCount("probes", roce.TailProbe, 1)
		s.WantCount("time-outs", roce.LocalACKTimeout, 0)
		s.WantIdle("done")
	}
}

// The first packet that is repeated after a NAK measures the round trip and ends the back-off: the
// responder has answered no earlier copy. One that was only late never shortens the round trip. A
// new packet that asks for an acknowledgement meanwhile changes nothing.
func TestRepeatedPacketMeasures(t *testing.T) {
	const trip = 2 * monotime.Millisecond
	for _, c := range []struct {
		answered monotime.Duration // after it was repeated
		want     monotime.Duration // the smoothed round trip
	}{{2 * trip, trip + trip/8}, {trip * 15 / 16, trip}, {trip / 2, trip}} {
		for _, more := range []bool{false, true} {
			s := script.New(t, newRC)
			s.Post(script.Write(10))
			s.WantDrain("sent", 1)
			s.Advance(trip)
			s.Recv(script.Ack(psn, 1))
			s.Post(script.Write(2*1024), script.Write(10))
			s.WantDrain("sent", 3)
			s.Advance(2 * trip)
			s.Recv(script.Nak(psn+1, wire.NAKPSNSequence))
			if p := s.WantPacket("repeated", wire.RCRDMAWriteFirst, psn+1); !p.AckReq {
				t.Error("it asks for no answer")
			}
			s.Advance(trip / 4)
			s.WantDrain("the rest", 2)
			if more {
				s.Post(script.Write(10))
				if p := s.WantPacket("new", wire.RCRDMAWriteOnly, psn+4); !p.AckReq {
					t.Error("it asks for no answer")
				}
			}
			s.Advance(c.answered - trip/4)
			s.Recv(script.Ack(psn+1, 1))
			if got := s.Machine.PathState(); got.RTT != c.want || got.MinRTT != trip {
				t.Errorf("answered after %v, a new packet %v: %+v, want a round trip of %v", c.answered,
					more, got, c.want)
			}
		}
	}
}

// The second copy of a missing packet measures nothing: the first may be answered. The next new
// packet measures again.
func TestSecondCopyMeasuresNothing(t *testing.T) {
	const trip = 2 * monotime.Millisecond
	s := script.New(t, newRC)
	s.Post(script.Write(10))
	s.WantDrain("sent", 1)
	s.Advance(trip)
	s.Recv(script.Ack(psn, 1))
	s.Post(script.Write(10), script.Write(10))
	s.WantDrain("sent", 2)
	s.Advance(trip)
	s.Recv(script.Nak(psn+1, wire.NAKPSNSequence))
	s.WantDrain("repeated", 2)
	s.Advance(3 * trip)
	s.WantPacket("the oldest", wire.RCRDMAWriteOnly, psn+1)
	s.WantPacket("the newest", wire.RCRDMAWriteOnly, psn+2)
	s.Advance(2 * trip)
	s.Recv(script.Ack(psn+2, 3))
	if got := s.Machine.PathState().RTT; got != trip {
		t.Errorf("a round trip of %v, want %v: the packet was sent three times", got, trip)
	}
	s.Post(script.Write(10))
	s.WantDrain("new", 1)
	s.Advance(2 * trip)
	s.Recv(script.Ack(psn+3, 4))
	if got := s.Machine.PathState().RTT; got != trip+trip/8 {
		t.Errorf("a round trip of %v, want %v", got, trip+trip/8)
	}
}
