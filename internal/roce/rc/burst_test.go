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
