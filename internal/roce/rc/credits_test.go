// SPDX-License-Identifier: BSD-2-Clause

package rc_test

import (
	"testing"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/qp"
	"verbena/internal/testkit/script"
	wire "verbena/internal/wire/roce"
)

// granted returns a requester that has been given credits for four receives. own says that its peer
// is Verbena.
func granted(t *testing.T, own bool) *script.Script {
	t.Helper()
	s := script.New(t, newRC)
	for range 10 {
		s.PostRecv(0, 10)
	}
	s.Post(script.Send(1))
	s.WantDrain("first", 1)
	ack := script.AckCredits(psn, 1, 4)
	ack.Selective = own
	s.Recv(ack)
	s.WantWC("first", 1, ib.WCSuccess)
	return s
}

// limited returns one that has used them. Four more SENDs wait.
func limited(t *testing.T, own bool) *script.Script {
	t.Helper()
	s := granted(t, own)
	s.Post(script.Send(1), script.Send(1), script.Send(1), script.Send(1),
		script.Send(1), script.Send(1), script.Send(1), script.Send(1))
	s.WantDrain("four have a receive", 4)
	return s
}

// The flow shows what a SEND waits for: receives of the peer, and acknowledgements.
func TestFlowShowsWhatASendWaitsFor(t *testing.T) {
	flow := func(s *script.Script) qp.Flow { return s.Machine.(qp.Flowing).Flow() }
	s := script.New(t, newRC)
	if got := flow(s); got.Credits != -1 || got.Outstanding != 0 {
		t.Errorf("before an acknowledgement: %+v", got)
	}
	if got := flow(granted(t, true)); got.Credits != 4 || got.Outstanding != 0 {
		t.Errorf("four receives: %+v", got)
	}
	if got := flow(limited(t, true)); got.Credits != 0 || got.Outstanding != 4 {
		t.Errorf("all used: %+v", got)
	}
}

// hear has the peer send its n-th message.
func hear(s *script.Script, n int) {
	p := script.Request(wire.RCSendOnly, peerPSN+ib.PSN(n), nil)
	p.AckReq = false
	s.Recv(p)
}

// A message of a Verbena peer stands for a receive: its answer goes without an acknowledgement.
func TestMessageStandsForAReceive(t *testing.T) {
	s := limited(t, true)
	hear(s, 0)
	s.WantDrain("an answer", 1)
	hear(s, 1)
	s.WantDrain("another", 1)
	s.Recv(script.AckCredits(psn+4, 5, 0))
	hear(s, 2)
	s.WantDrain("an acknowledgement of earlier messages takes nothing back", 1)
}

// The messages of another peer say nothing of its receives.
func TestMessageOfAForeignPeerIsNoReceive(t *testing.T) {
	s := limited(t, false)
	hear(s, 0)
	s.WantQuiet("no credit")
}

// However many messages come, SENDs that answer none of them stay below the next larger number that
// a credit code stands for: six after four.
func TestMessagesStandForFewReceives(t *testing.T) {
	s := granted(t, true)
	for n := range 10 {
		hear(s, n)
	}
	s.Post(script.Send(1), script.Send(1), script.Send(1), script.Send(1),
		script.Send(1), script.Send(1), script.Send(1), script.Send(1))
	s.WantDrain("five", 5)
}

// After an RNR NAK only acknowledgements count.
func TestMessageIsNoReceiveAfterRNR(t *testing.T) {
	s := limited(t, true)
	s.Recv(script.RNR(psn+1, 1))
	s.Advance(monotime.Millisecond)
	s.WantDrain("again", 4)
	s.Recv(script.AckCredits(psn+4, 5, 0))
	s.WantDrain("one beyond the limit", 1)
	hear(s, 0)
	s.WantQuiet("the message is no credit")
}

// An acknowledgement that waits has the credits of the moment when it is sent.
func TestCreditsOfAnAckThatWaited(t *testing.T) {
	s := receiver(t, 10)
	s.DelayingAcks(func() {
		s.Recv(script.Request(wire.RCSendOnly, peerPSN, nil))
		s.PostRecv(0, 10)
		s.PostRecv(0, 10)
	})
	p := s.WantAck("late", peerPSN, 1)
	if n, ok := wire.Credits(p.AETH.Syndrome.Value()); !ok || n != 2 {
		t.Errorf("%d credits (%v), want those of the two receives posted since", n, ok)
	}
}
