// SPDX-License-Identifier: BSD-2-Clause

package rc_test

import (
	"encoding/binary"
	"testing"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/roce"
	"verbena/internal/testkit/script"
	wire "verbena/internal/wire/roce"
)

// relaxed gives the machine memory into which READs may overtake each other.
func relaxed(s *script.Setup) { s.Access |= ib.AccessRelaxedOrdering }

// readAt is a READ request of the peer.
func readAt(s *script.Script, psn ib.PSN, off, n int) wire.Packet {
	p := script.Request(wire.RCRDMAReadRequest, psn, nil)
	p.RETH = wire.RETH{VA: script.Base + uint64(off), RKey: s.MR.RKey(), DMALen: uint32(n)}
	p.AckReq = true
	return p
}

// middle is a response of 1,024 bytes within a READ, of a responder of Verbena.
func middle(psn ib.PSN) wire.Packet {
	return script.Response(wire.RCRDMAReadResponseMiddle, psn, script.Bytes(1024, byte(psn)))
}

// last is middle at the end of a READ.
func last(psn ib.PSN) wire.Packet {
	p := middle(psn)
	p.Opcode = wire.RCRDMAReadResponseLast
	return p
}

// wantRead takes the next packet sent, a READ request of n packets from psn on.
func wantRead(t *testing.T, s *script.Script, why string, psn ib.PSN, n int) {
	t.Helper()
	if p := s.WantPacket(why, wire.RCRDMAReadRequest, psn); int(p.RETH.DMALen) != n*1024 {
		t.Fatalf("%s: %v", why, script.Format(&p))
	}
}

// Responses are placed in whatever order they come. READs complete in theirs, when they are whole.
func TestReadResponsesOutOfOrder(t *testing.T) {
	s := script.New(t, newRC, relaxed)
	s.Post(script.Read(3*1024), script.Write(10), script.Read(2*1024).List(s.SGE(4096, 2048)),
		script.FetchAdd(1).List(s.SGE(8192, 8)))
	s.WantDrain("sent", 4)
	s.Recv(script.AtomicAck(psn+6, 42))
	s.Recv(last(psn + 5))
	s.Recv(middle(psn + 1))
	s.Recv(middle(psn + 4))
	s.Recv(last(psn + 2))
	s.WantNoWC("the first response is missing")
	s.WantMemory("of the other READ", 4096, script.Bytes(1024, byte(psn+4)))
	s.Packets()
	s.Recv(middle(psn))
	for i := range uint64(4) {
		s.WantWC("all", i+1, ib.WCSuccess)
	}
	for i := range 3 {
		s.WantMemory("of the first", i*1024, script.Bytes(1024, byte(psn)+byte(i)))
	}
	if v := binary.NativeEndian.Uint64(s.Memory[8192:]); v != 42 {
		t.Errorf("original value %d", v)
	}
	s.WantIdle("done")
}

// A READ that is repeated reads the memory again. So a later one of another work request is
// repeated, too, and behind it: what it brought before is not taken.
func TestReadsKeepTheirOrder(t *testing.T) {
	s := script.New(t, newRC)
	s.Post(script.Read(2048), script.Read(2048).List(s.SGE(4096, 2048)))
	s.WantDrain("sent", 2)
	s.Recv(middle(psn))
	s.Recv(middle(psn + 2))
	wantRead(t, s, "what is missing", psn+1, 1)
	wantRead(t, s, "and all after it", psn+2, 2)
	s.Recv(last(psn + 3))
	s.WantUntouched("of the other READ", 4096, 2048)
	s.Recv(last(psn + 1))
	s.WantWC("the first", 1, ib.WCSuccess)
	s.Recv(middle(psn + 2))
	s.Recv(last(psn + 3))
	s.WantWC("the other", 2, ib.WCSuccess)
	s.WantIdle("done")
}

// All missing responses are asked for at once, and nothing else.
func TestReadOnlyWhatIsMissing(t *testing.T) {
	s := script.New(t, newWideRC, relaxed)
	s.Post(script.Read(8*1024), script.Read(4*1024))
	s.WantDrain("sent", 2)
	for _, i := range []ib.PSN{0, 2, 3, 6} {
		s.Recv(middle(psn + i))
	}
	wantRead(t, s, "the first gap", psn+1, 1)
	wantRead(t, s, "the second", psn+4, 2)
	s.Recv(middle(psn + 9))
	wantRead(t, s, "the end of the READ", psn+7, 1)
	wantRead(t, s, "and the begin of the next", psn+8, 1)
	s.WantQuiet("that is all")
	for _, i := range []ib.PSN{10, 5, 1, 4, 8} {
		s.Recv(middle(psn + i))
	}
	s.Recv(last(psn + 11))
	s.Recv(last(psn + 7))
	s.WantWC("the first", 1, ib.WCSuccess)
	s.WantWC("the second", 2, ib.WCSuccess)
	s.WantCount("repeated", roce.Retransmitted, 4)
	s.WantIdle("done")
}

// foreign is middle of a responder that is not Verbena.
func foreign(psn ib.PSN) wire.Packet {
	p := middle(psn)
	p.Selective = false
	return p
}

// A responder that is not Verbena is asked for all from a gap on: Linux's rxe answers no part of a
// READ that begins before one that was asked for again.
func TestReadOfForeignResponder(t *testing.T) {
	s := script.New(t, newWideRC, relaxed)
	s.Post(script.Read(8*1024), script.Read(4*1024))
	s.WantDrain("sent", 2)
	for _, i := range []ib.PSN{0, 2, 4} {
		s.Recv(foreign(psn + i))
	}
	wantRead(t, s, "from the gap on", psn+1, 7)
	wantRead(t, s, "and the next READ", psn+8, 4)
	s.WantQuiet("once")
}

// A requester that goes back never asks a foreign responder for a part of a READ that begins before
// one asked for already: rxe would not answer.
func TestForeignResponderIsNeverAskedForLess(t *testing.T) {
	s := script.New(t, newRC)
	s.Post(script.Read(40<<10), script.Read(1024)) // the first by two requests
	asked := map[ib.PSN]ib.PSN{}                   // by the end of the request
	look := func(why string) {
		t.Helper()
		for _, p := range s.Packets() {
			end := p.PSN.Add(p.RETH.DMALen / 1024)
			for e := range asked { // a part ends where its request ends, or before
				if end.Before(e) && asked[e].Before(end) {
					end = e
				}
			}
			if before, ok := asked[end]; ok && p.PSN.Before(before) {
				t.Fatalf("%s: asked for %v, after %v of the same READ", why, p.PSN-psn, before-psn)
			}
			asked[end] = p.PSN
		}
	}
	look("the requests")
	for _, i := range []ib.PSN{0, 2, 3, 32, 34} {
		s.Recv(foreign(psn + i))
		look("a gap")
	}
	only := script.Response(wire.RCRDMAReadResponseOnly, psn+40, script.Bytes(1024, 1))
	only.Selective = false
	s.Recv(only)
	look("an answer that may not overtake: the queue pair goes back")
	for range 4 {
		s.Advance(100 * monotime.Millisecond)
		look("a time-out")
	}
}

// The newest response shows the missing ones, but a foreign responder would answer nothing before
// it any more.
func TestProbeOfForeignResponder(t *testing.T) {
	s := script.New(t, newWideRC)
	s.Post(script.Read(8 * 1024))
	s.WantDrain("sent", 1)
	for i := range ib.PSN(4) {
		s.Recv(foreign(psn + i))
	}
	s.Advance(5 * monotime.Millisecond)
	wantRead(t, s, "all that is missing", psn+4, 4)
}

// An answer within a host may say that it takes more packets than the request has. It completes
// nothing else.
func TestAnswerTooLong(t *testing.T) {
	s := script.New(t, newRC, inRing)
	s.Post(script.FetchAdd(1), script.Read(1024))
	s.WantDrain("sent", 2)
	p := script.AtomicAck(psn, 42)
	p.ICRC = 7
	s.Recv(p)
	s.WantWC("refused", 1, ib.WCBadRespErr)
	s.WantWC("flushed", 2, ib.WCWRFlushErr)
}

// A response that is lost again is asked for a third time when one that was asked for later comes:
// another repetition, or a new one.
func TestResponseLostAgain(t *testing.T) {
	s := script.New(t, newWideRC, relaxed)
	s.Post(script.Read(20 * 1024))
	s.WantDrain("sent", 1)
	s.Advance(monotime.Millisecond)
	for _, i := range []ib.PSN{1, 2, 3, 5} {
		s.Recv(middle(psn + i))
	}
	wantRead(t, s, "first", psn, 1)
	wantRead(t, s, "second", psn+4, 1)
	s.Advance(monotime.Millisecond)
	s.Recv(middle(psn + 4))
	wantRead(t, s, "the second came, the first did not", psn, 1)
	for i := ib.PSN(6); i < 19; i++ {
		s.Recv(middle(psn + i))
	}
	s.Recv(last(psn + 19))
	s.WantQuiet("all this was asked for before")
	s.Post(script.Send(10))
	s.WantPacket("new", wire.RCSendOnly, psn+20)
	s.Recv(script.Ack(psn+20, 2))
	wantRead(t, s, "it was acknowledged, the first did not come", psn, 1)
	s.WantNoWC("not whole")
	s.Recv(middle(psn))
	s.WantWC("the READ", 1, ib.WCSuccess)
	s.WantWC("the SEND", 2, ib.WCSuccess)
	s.WantIdle("done")
}

// A time-out asks for the last response, or the last READ if it is not known to have arrived.
func TestReadProbe(t *testing.T) {
	s := script.New(t, newRC, relaxed)
	s.Post(script.Read(4 * 1024))
	s.WantDrain("sent", 1)
	s.Recv(middle(psn))
	s.Advance(5 * monotime.Millisecond)
	wantRead(t, s, "the last response", psn+3, 1)
	s.WantQuiet("no more")
	s.Recv(last(psn + 3))
	wantRead(t, s, "what it shows to be missing", psn+1, 2)
	s.Recv(middle(psn + 1))
	s.Recv(last(psn + 2))
	s.WantWC("whole", 1, ib.WCSuccess)

	s = script.New(t, newRC, relaxed)
	s.Post(script.Read(1024))
	s.WantDrain("sent", 1)
	s.Recv(script.Response(wire.RCRDMAReadResponseOnly, psn, script.Bytes(1024, 1)))
	s.Post(script.Read(4*1024), script.Read(2*1024))
	s.WantDrain("sent", 2)
	s.Advance(5 * monotime.Millisecond)
	wantRead(t, s, "the last READ", psn+5, 2)
	s.WantQuiet("no more")

	s = script.New(t, newRC, relaxed)
	s.Post(script.Read(4*1024), script.Read(2*1024))
	s.WantDrain("sent", 2)
	s.Advance(25 * monotime.Millisecond)
	wantRead(t, s, "a responder that may be another's: from the oldest on", psn, 4)
}

// After time-outs have gone back the responses come again, which is no news, but shows that they
// are on their way. No time-out goes back meanwhile, though the oldest was lost again.
func TestResponsesThatComeAgain(t *testing.T) {
	const ms = monotime.Millisecond
	s := script.New(t, newWideRC, relaxed)
	s.Post(script.Read(20 * 1024))
	s.WantDrain("sent", 1)
	s.Advance(ms)
	rest := func(pause monotime.Duration) {
		for i := ib.PSN(1); i < 19; i++ {
			s.Recv(middle(psn + i))
			s.Advance(pause)
		}
		s.Recv(last(psn + 19))
	}
	rest(0)
	wantRead(t, s, "the missing one", psn, 1)
	s.Advance(5 * ms)
	wantRead(t, s, "a time-out", psn, 1)
	s.Advance(10 * ms)
	wantRead(t, s, "another goes back", psn, 20)
	s.Packets()
	probes := s.Machine.Counters()[roce.TailProbe]
	rest(5 * ms)
	wantRead(t, s, "the missing one, when the others show it", psn, 1)
	s.WantQuiet("no time-out")
	s.WantCount("no time-out", roce.TailProbe, probes)
	s.Recv(middle(psn))
	s.WantWC("whole", 1, ib.WCSuccess)
}

// Responses that nobody asked for, that come twice, that are too long, or that reach from one READ
// into the next do nothing. A bad one after a gap ends the work request only when it is the oldest.
func TestResponsesThatLie(t *testing.T) {
	s := script.New(t, newRC, relaxed)
	s.Post(script.Read(4*1024), script.Send(10), script.Read(2*1024).List(s.SGE(8192, 2048)))
	s.WantDrain("sent", 3)
	s.Recv(middle(psn + 7))
	s.WantCount("never asked for", roce.StaleAck, 1)
	s.Recv(middle(psn + 4))
	s.WantCount("of a SEND", roce.BadResponse, 1)
	s.Recv(script.AtomicAck(psn+2, 1))
	s.WantCount("of an atomic", roce.BadResponse, 2)
	bad := middle(psn + 5)
	bad.Payload = script.Bytes(1023, 9)
	s.Recv(bad)
	s.WantCount("too short", roce.BadResponse, 3)
	bad.Payload = script.Bytes(1028, 9)
	s.Recv(bad)
	s.WantCount("too long", roce.BadResponse, 4)
	s.Recv(last(psn + 2))
	s.WantCount("an end where none was asked for", roce.BadResponse, 5)
	s.WantQuiet("nothing of that is evidence")
	s.WantUntouched("nor is it placed", 0, 16384)
	s.Recv(middle(psn + 2))
	wantRead(t, s, "the truth", psn, 2)
	again := middle(psn + 2)
	again.Payload = script.Bytes(1024, 99)
	s.Recv(again)
	s.WantCount("twice", roce.StaleAck, 2)
	s.WantMemory("the first counts", 2048, script.Bytes(1024, byte(psn+2)))
	s.WantState("no harm", ib.QPRTS)
	bad = middle(psn)
	bad.Payload = script.Bytes(1023, 9)
	s.Recv(bad)
	s.WantWC("the oldest is bad", 1, ib.WCBadRespErr)
	s.WantState("over", ib.QPErr)
}

// In a ring a long response may fill several gaps, or reach past the end of its READ.
func TestLongResponseFillsGaps(t *testing.T) {
	s := script.New(t, newWideRC, inRing, relaxed)
	s.Post(script.Read(16*1024), script.Read(16*1024))
	s.WantDrain("sent", 2)
	response := func(at ib.PSN, packets int) wire.Packet {
		p := middle(psn + at)
		p.Payload = script.Bytes(packets*1024, byte(at))
		p.ICRC = uint32(packets - 1)
		return p
	}
	s.Recv(response(1, 2))
	s.Recv(response(4, 2))
	s.Packets()
	s.Recv(response(14, 4))
	s.WantCount("into the next READ", roce.BadResponse, 1)
	s.Recv(response(0, 8))
	s.WantMemory("all of it", 0, script.Bytes(8*1024, 0))
	s.WantNoWC("half is missing")
	s.Recv(func() wire.Packet { p := response(8, 8); p.Opcode = wire.RCRDMAReadResponseLast; return p }())
	s.WantWC("whole", 1, ib.WCSuccess)
}

// The memory of a READ may be gone when it is read again: the NAK ends the work request when that
// is the oldest, and none before.
func TestRepeatedReadRefused(t *testing.T) {
	s := script.New(t, newRC, relaxed)
	s.Post(script.Read(4*1024), script.Read(4*1024))
	s.WantDrain("sent", 2)
	for _, i := range []ib.PSN{0, 2, 4, 6} {
		s.Recv(middle(psn + i))
	}
	wantRead(t, s, "of the first", psn+1, 1)
	wantRead(t, s, "its end", psn+3, 1)
	wantRead(t, s, "of the second", psn+5, 1)
	s.Recv(script.Nak(psn+5, wire.NAKRemoteAccess))
	s.WantNoWC("the first is older")
	s.Recv(last(psn + 3))
	s.Recv(middle(psn + 1))
	s.WantWC("the first", 1, ib.WCSuccess)
	s.Recv(script.Nak(psn+5, wire.NAKRemoteAccess))
	s.WantWC("the second", 2, ib.WCRemAccessErr)
}

// A responder that is asked for a part of a READ whose response it still owes sends all of it.
func TestPartOfReadStillOwed(t *testing.T) {
	s := script.New(t, newRC)
	copy(s.Memory, script.Bytes(4096, 1))
	s.Together(func() {
		s.Recv(readAt(s, peerPSN, 0, 4096))
		s.Recv(readAt(s, peerPSN, 0, 1024))
		s.Recv(readAt(s, peerPSN+2, 2048, 1024))
	})
	seen := map[ib.PSN]bool{}
	for _, p := range s.Packets() {
		seen[p.PSN] = true
	}
	if len(seen) != 4 {
		t.Errorf("responses %v", seen)
	}
}

// A SACK says that the responses of all that it acknowledges were sent: it goes behind them.
func TestSACKBehindResponses(t *testing.T) {
	s := script.New(t, newRC)
	read := readAt(s, peerPSN, 0, 10)
	read.Selective = true
	s.Together(func() {
		s.Recv(selective(s, peerPSN+3))
		s.Recv(read)
	})
	s.WantPacket("response", wire.RCRDMAReadResponseOnly, peerPSN)
	wantSack(t, s, "the gap", peerPSN+4, gap(peerPSN+1, peerPSN+2))
}

// A responder that has answered a part of a READ before its turn may refuse all of it then.
func TestReadIsRefusedWhereAPartHasCome(t *testing.T) {
	for at, refused := range map[ib.PSN]bool{psn: false, psn + 1: true, psn + 2: true} {
		s := script.New(t, newRC, relaxed)
		s.Post(script.Read(1024), script.Read(2*1024).List(s.SGE(4096, 2048)))
		s.WantDrain("sent", 2)
		s.Recv(script.Response(wire.RCRDMAReadResponseOnly, psn, script.Bytes(1024, 1)))
		s.WantWC("the first", 1, ib.WCSuccess)
		s.Recv(script.Response(wire.RCRDMAReadResponseFirst, psn+1, script.Bytes(1024, 2)))
		s.Recv(script.Nak(at, wire.NAKRemoteAccess))
		if refused {
			s.WantWC("the second", 2, ib.WCRemAccessErr)
		} else {
			s.WantNoWC("of a request that is complete")
		}
	}
}
