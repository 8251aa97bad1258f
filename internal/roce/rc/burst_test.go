// SPDX-License-Identifier: BSD-2-Clause

package rc_test

import (
	"testing"

	"verbena/ib"
	"verbena/internal/roce"
	"verbena/internal/testkit/script"
	wire "verbena/internal/wire/roce"
)

// Packets of one size share a burst. (The middle packets of a WRITE once went
// out one by one, at a quarter of the bandwidth: the check that spares a look
// at memory took them to be four bytes longer than they are.)
func TestPacketsShareBursts(t *testing.T) {
	for _, c := range []struct {
		name   string
		post   func(s *script.Script)
		bursts int
	}{
		{"one large WRITE: first and second packet, then all the others", func(s *script.Script) { s.Post(script.Write(30 * 1024)) }, 2},
		{"many small WRITEs", func(s *script.Script) {
			s.Together(func() {
				for range 16 {
					s.Post(script.Write(8))
				}
			})
		}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := script.New(t, newRC, attr(func(a *ib.QPAttr) { a.PathMTU = ib.MTU1024 }))
			c.post(s)
			if s.Bursts != c.bursts {
				t.Errorf("%d bursts, want %d", s.Bursts, c.bursts)
			}
		})
	}
}

// While two ends talk in turns one acknowledgement covers many messages. (It
// once went out with every second answer, in a send of its own: a third of the
// time of a short SEND.)
func TestAcknowledgementStaysBehindWhileEndsTalkInTurns(t *testing.T) {
	const turns = 5
	s := script.New(t, newRC)
	s.DelayingAcks(func() {
		for i := range ib.PSN(turns) {
			s.PostRecv(0, 10)
			s.Recv(script.Request(wire.RCSendOnly, peerPSN+i, script.Bytes(2, 1)))
			s.WantQuiet("the application may answer")
			s.Post(script.Send(2))
			s.WantPacket("the answer", wire.RCSendOnly, psn+i)
			s.WantQuiet("it goes alone")
		}
	})
	s.WantAck("for all of them", peerPSN+turns-1, turns)
	s.WantQuiet("once")
}

// An acknowledgement comes before the answer where the engine asks for that. (ib_send_lat -e has a
// completion queue of one entry for its sends. It took the event of the answer for that of its
// send, and found the queue empty. It overran it with the next one and slept for ever.)
func TestAcknowledgementComesBeforeTheAnswer(t *testing.T) {
	s := script.New(t, newRC)
	s.PlaceAck(roce.AckBefore)
	s.PostRecv(0, 10)
	s.Together(func() {
		s.Recv(script.Request(wire.RCSendOnly, peerPSN, script.Bytes(2, 1)))
		s.Post(script.Send(2))
	})
	s.WantAck("first", peerPSN, 1)
	s.WantPacket("the answer", wire.RCSendOnly, psn)
}

// It shares the answer's burst where the peer's application does not wait for it.
func TestAcknowledgementComesBehindTheAnswerIfNobodyWaits(t *testing.T) {
	for _, c := range []struct {
		name      string
		unawaited []bool // of requests that have no acknowledgement yet
		first     bool   // the acknowledgement comes before the answer
	}{
		{"a foreign request", []bool{false}, true},
		{"an unsignaled one", []bool{true}, false},
		{"one after a foreign one", []bool{false, true}, true},
		{"one before a foreign one", []bool{true, false}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := script.New(t, newRC)
			s.PlaceAck(roce.AckBefore)
			last := peerPSN
			for range c.unawaited {
				s.PostRecv(0, 10)
			}
			s.Together(func() {
				for i, unawaited := range c.unawaited {
					last = peerPSN + ib.PSN(i)
					p := script.Request(wire.RCSendOnly, last, script.Bytes(2, 1))
					p.Unawaited = unawaited
					s.Recv(p)
				}
				s.Post(script.Send(100))
			})
			if c.first {
				s.WantAck("first", last, ib.MSN(len(c.unawaited)))
			}
			s.WantPacket("the answer", wire.RCSendOnly, psn)
			if !c.first {
				s.WantAck("behind it", last, ib.MSN(len(c.unawaited)))
				if s.Bursts != 1 {
					t.Errorf("%d bursts, want 1", s.Bursts)
				}
			}
		})
	}
}

// A requester says that nobody waits for an acknowledgement unless it completes a signaled request.
func TestUnawaitedRequests(t *testing.T) {
	s := script.New(t, newWideRC)
	want := func(why string, at ib.PSN, unawaited bool) {
		t.Helper()
		if p := s.WantPacket(why, wire.RCSendOnly, at); !p.AckReq || p.Unawaited != unawaited {
			t.Errorf("%s: AckReq %t, Unawaited %t, want %t", why, p.AckReq, p.Unawaited, unawaited)
		}
	}
	quiet := script.Send(8).Unsignaled()
	s.Post(quiet)
	want("unsignaled", psn, true)
	s.Post(script.Send(8))
	want("signaled", psn+1, false)
	s.Post(script.Send(8), quiet)
	s.WantPacket("signaled, not the last", wire.RCSendOnly, psn+2)
	want("unsignaled, behind it", psn+3, false)
	s.Post(quiet)
	want("unsignaled again", psn+4, true)
	s.Recv(script.Ack(psn+4, 5))
	s.Post(quiet)
	want("unsignaled after the acknowledgement", psn+5, true)
}

// An acknowledgement that goes with an answer costs no send of its own.
func TestAcknowledgementSharesTheAnswersBurst(t *testing.T) {
	for _, c := range []struct {
		name   string
		length int
		bursts int
	}{
		{"an answer as long as it", 2, 1},
		{"a longer one", 900, 1},
		{"a shorter one, behind which it does not fit", 0, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := script.New(t, newRC)
			s.PostRecv(0, 10)
			s.Together(func() {
				s.Recv(script.Request(wire.RCSendOnly, peerPSN, script.Bytes(2, 1)))
				s.Post(script.Send(c.length))
			})
			s.WantPacket("the answer", wire.RCSendOnly, psn)
			s.WantAck("behind it", peerPSN, 1)
			if s.Bursts != c.bursts {
				t.Errorf("%d bursts, want %d", s.Bursts, c.bursts)
			}
		})
	}
}
