// SPDX-License-Identifier: BSD-2-Clause

package rc_test

import (
	"testing"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/testkit/script"
	wire "verbena/internal/wire/roce"
)

// reads plays READs of 64 packets, the first of psn. An end of Verbena says that it is one.
func reads(s *script.Script, psn ib.PSN, own bool) {
	p := s.At(script.Request(wire.RCRDMAReadRequest, psn, nil), 0, 64<<10)
	p.Selective = own
	s.Recv(p)
}

// notify plays n CNPs, each a period after the one before.
func notify(s *script.Script, n int) {
	for range n {
		s.Recv(cnp())
		s.Advance(cnpPeriod)
	}
}

// CNPs of a foreign requester slow the responses to its READs. The rate rises again until nothing
// limits it.
func TestCNPSlowsResponses(t *testing.T) {
	s := script.New(t, newRC)
	reads(s, peerPSN, false)
	s.WantDrain("nothing limits them", 64)
	notify(s, 12) // 100 Gb/s become 24 Mb/s
	next := peerPSN.Add(64)
	reads(s, next, false)
	if n := len(s.Packets()); n != 1 {
		t.Errorf("%d responses at once, want 1", n)
	}
	s.Advance(2 * monotime.Millisecond) // 24 Mb/s are three packets a millisecond
	if n := len(s.Packets()); n < 3 || n > 30 {
		t.Errorf("%d responses in 2 ms, want a few", n)
	}
	s.Advance(100 * monotime.Millisecond)
	s.Packets()
	s.WantIdle("all have gone")
	for i := 0; ; i++ {
		next = next.Add(64)
		reads(s, next, false)
		if n := len(s.Packets()); n == 64 {
			break
		}
		s.Advance(10 * monotime.Millisecond)
		s.Packets()
		if i == 1000 {
			t.Fatal("still slow after 10 s")
		}
	}
	s.WantIdle("nothing limits them")
}

// Answers of atomics wait, too. Acknowledgements do not.
func TestCNPSlowsAtomics(t *testing.T) {
	s := script.New(t, newRC)
	add := func(psn ib.PSN) { s.Recv(s.At(script.Request(wire.RCFetchAdd, psn, nil), 0, 8)) }
	add(peerPSN)
	s.WantPacket("at once", wire.RCAtomicAcknowledge, peerPSN)
	notify(s, 30)
	add(peerPSN.Add(1))
	s.WantPacket("the line is free", wire.RCAtomicAcknowledge, peerPSN.Add(1))
	add(peerPSN.Add(2))
	s.WantQuiet("at 1 Mb/s")
	s.Advance(monotime.Millisecond)
	s.WantPacket("after the time of one", wire.RCAtomicAcknowledge, peerPSN.Add(2))
	s.PostRecv(0, 1024)
	s.Recv(script.Request(wire.RCSendOnly, peerPSN.Add(3), nil))
	s.WantPacket("an acknowledgement", wire.RCAcknowledge, peerPSN.Add(3))
}

// However many CNPs come, responses go on at 1 Mb/s.
func TestFloodOfCNPsLeavesResponses(t *testing.T) {
	s := script.New(t, newRC)
	reads(s, peerPSN, false)
	s.WantDrain("nothing limits them", 64)
	notify(s, 30)
	asked, n := 0, 0
	const seconds = 2
	for end := s.Now.Add(seconds * monotime.Second); s.Now.Before(end); {
		if n == asked {
			asked += 64
			reads(s, peerPSN.Add(uint32(asked)), false)
		}
		notify(s, 1)
		n += len(s.Packets())
	}
	const least = 1_000_000 / 8 * seconds / middleBytes
	if n < least*95/100 || n > least*110/100 {
		t.Errorf("%d responses in %d s, want %d: 1 Mb/s", n, seconds, least)
	}
}

// A CNP while only responses are on the way leaves the requester's window as it is. Where requests
// are, too, it shrinks the window.
func TestCNPOfResponsesSparesTheWindow(t *testing.T) {
	window := func(cnps int, outstanding bool) int64 {
		s := script.New(t, newRC)
		s.Post(script.Write(10))
		s.WantPacket("measures the round trip", wire.RCRDMAWriteOnly, psn)
		s.Advance(100 * monotime.Microsecond)
		s.Recv(script.Ack(psn, 1))
		reads(s, peerPSN, false)
		s.Packets()
		if outstanding {
			s.Post(script.Write(10))
			s.Packets()
		}
		notify(s, cnps)
		return s.Machine.PathState().WindowBytes
	}
	before := window(0, false)
	if after := window(20, false); after != before {
		t.Errorf("a window of %d bytes, %d before", after, before)
	}
	if after := window(20, true); after > before/2 {
		t.Errorf("a window of %d bytes with a WRITE outstanding, %d before", after, before)
	}
}

// An end of Verbena bounds the responses that it asks for. CNPs do not slow them.
func TestCNPLeavesOwnResponses(t *testing.T) {
	s := script.New(t, newRC)
	reads(s, peerPSN, true)
	s.WantDrain("nothing limits them", 64)
	notify(s, 30)
	reads(s, peerPSN.Add(64), true)
	s.WantDrain("nothing limits them", 64)
	s.WantIdle("no timer")
}

// The error state drops the responses that wait, and their timer. CNPs change nothing there.
func TestSlowResponsesInError(t *testing.T) {
	s := script.New(t, newRC)
	reads(s, peerPSN, false)
	notify(s, 30)
	reads(s, peerPSN.Add(64), false)
	s.Packets()
	s.SetState(ib.QPErr)
	s.WantIdle("all is dropped")
	notify(s, 3)
	s.WantIdle("no timer")
}
