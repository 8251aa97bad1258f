// SPDX-License-Identifier: BSD-2-Clause

package rc_test

import (
	"testing"

	"verbena/ib"
	"verbena/internal/roce"
	"verbena/internal/testkit/script"
	wire "verbena/internal/wire/roce"
)

// earlyAt is a READ request of 2 KiB of a peer of Verbena, which may overtake others.
func earlyAt(s *script.Script, psn ib.PSN, off int) wire.Packet {
	p := readAt(s, psn, off, 2048)
	p.Selective, p.Overtakes = true, true
	return p
}

// wantTwo takes the two responses of a READ of 2 KiB.
func wantTwo(s *script.Script, why string, psn ib.PSN) {
	s.WantPacket(why, wire.RCRDMAReadResponseFirst, psn)
	s.WantPacket(why, wire.RCRDMAReadResponseLast, psn+1)
}

// A READ that may overtake is answered although a request before it is missing. It is asked for
// again, in part too, before its turn and after it. When the gap fills it is not answered again.
func TestReadAnsweredEarly(t *testing.T) {
	s := script.New(t, newRC)
	s.Recv(earlyAt(s, peerPSN+2, 2048))
	wantTwo(s, "early", peerPSN+2)
	wantSack(t, s, "the gap", peerPSN+4, gap(peerPSN, peerPSN+1))
	s.Recv(earlyAt(s, peerPSN+4, 4096))
	wantTwo(s, "the next", peerPSN+4)
	s.Recv(earlyAt(s, peerPSN+2, 2048))
	wantTwo(s, "once more", peerPSN+2)
	s.Recv(readAt(s, peerPSN+3, 3072, 1024))
	s.WantPacket("a part", wire.RCRDMAReadResponseOnly, peerPSN+3)
	s.WantQuiet("no news about the gap")
	s.Recv(earlyAt(s, peerPSN, 0))
	wantTwo(s, "the missing READ", peerPSN)
	s.WantQuiet("the others were answered")
	s.Recv(readAt(s, peerPSN+2, 2048, 2048))
	wantTwo(s, "after its turn", peerPSN+2)
	s.Recv(readAt(s, peerPSN+6, 0, 1024))
	s.WantPacket("the READ after all", wire.RCRDMAReadResponseOnly, peerPSN+6)
	s.WantIdle("done")
}

// The response of a missing READ goes before those that are pending and overtook it.
func TestMissingReadIsAnsweredFirst(t *testing.T) {
	s := script.New(t, newRC)
	s.Together(func() {
		s.Recv(earlyAt(s, peerPSN+2, 2048))
		s.Recv(earlyAt(s, peerPSN, 0))
	})
	wantTwo(s, "missing", peerPSN)
	wantTwo(s, "early", peerPSN+2)
	s.WantIdle("done")
}

// Without leave of the requester a READ waits for its turn: it may be to see a WRITE before it.
func TestReadWaitsForItsTurn(t *testing.T) {
	s := script.New(t, newRC)
	p := earlyAt(s, peerPSN+1, 0)
	p.Overtakes = false
	s.Recv(p)
	wantSack(t, s, "the gap", peerPSN+3, gap(peerPSN, peerPSN))
	p = writeAt(s, peerPSN+5, 0, 10, 1)
	p.Selective, p.Overtakes = true, true
	s.Recv(p)
	s.WantUntouched("only READs may overtake", 0, 10)
}

// A READ of memory that its peer may not read is refused when its turn has come. Before, it is
// answered by a NAK that ends nothing here.
func TestEarlyReadRefusedInItsTurn(t *testing.T) {
	s := script.New(t, newRC)
	bad := earlyAt(s, peerPSN+2, 0)
	bad.RETH.RKey++
	s.Recv(bad)
	s.WantNak("early", peerPSN+2, wire.NAKRemoteAccess)
	wantSack(t, s, "the gap", peerPSN+4, gap(peerPSN, peerPSN+1))
	s.WantState("no harm yet", ib.QPRTS)
	s.Recv(earlyAt(s, peerPSN, 0))
	wantTwo(s, "missing", peerPSN)
	s.WantNak("its turn", peerPSN+2, wire.NAKRemoteAccess)
	s.WantState("over", ib.QPErr)
}

// However many READs a peer sends after a gap, the pending responses are bounded, as are the READs
// that are kept for repetition. A peer without the right to READ gets no answer.
func TestEarlyReadsAreBounded(t *testing.T) {
	s := script.New(t, newRC)
	s.Together(func() {
		for i := range ib.PSN(5000) {
			s.Recv(earlyAt(s, peerPSN+2+2*i, 0))
		}
	})
	if n := len(s.Packets()); n > 2*512 {
		t.Errorf("%d packets", n)
	}
	s = script.New(t, newRC, attr(func(a *ib.QPAttr) { a.MaxDestRdAtomic = 0 }))
	s.Recv(earlyAt(s, peerPSN+2, 0))
	wantSack(t, s, "the gap", peerPSN+4, gap(peerPSN, peerPSN+1))
	s = script.New(t, newRC, attr(func(a *ib.QPAttr) { a.AccessFlags = ib.AccessRemoteWrite }))
	s.Recv(earlyAt(s, peerPSN+2, 0))
	wantSack(t, s, "the gap", peerPSN+4, gap(peerPSN, peerPSN+1))
}

// A target of XRC answers a READ early from the memory of the queue that it names.
func TestXRCReadAnsweredEarly(t *testing.T) {
	x := newTarget(t)
	x.Recv(forSRQ(ours, earlyAt(x.Script, peerPSN+2, 0)))
	x.WantPacket("early", wire.XRCRDMAReadResponseFirst, peerPSN+2)
	x.WantPacket("early", wire.XRCRDMAReadResponseLast, peerPSN+3)
}

// A requester lets a READ overtake where only READs are outstanding, and where their responses may
// come in any order.
func TestWhichReadsOvertake(t *testing.T) {
	want := func(s *script.Script, why string, overtakes ...bool) {
		t.Helper()
		for i, p := range s.WantDrain(why, len(overtakes)) {
			if p.Overtakes != overtakes[i] {
				t.Errorf("%s: packet %d overtakes: %v", why, i, p.Overtakes)
			}
		}
	}
	s := script.New(t, newWideRC, relaxed, attr(func(a *ib.QPAttr) { a.MaxRdAtomic = 16 }))
	s.Post(script.Read(10), script.Read(10))
	want(s, "a responder that may be foreign", false, false)
	only := func(psn ib.PSN) wire.Packet {
		return script.Response(wire.RCRDMAReadResponseOnly, psn, script.Bytes(10, 1))
	}
	s.Recv(only(psn))
	s.Recv(only(psn + 1))
	s.Post(script.Read(10), script.Read(10), script.Write(10), script.Read(10))
	want(s, "a WRITE", true, true, false, false)
	s.Recv(only(psn + 2))
	s.Recv(only(psn + 3))
	s.Recv(script.Ack(psn+4, 3))
	s.Post(script.Read(10), script.FetchAdd(1), script.Read(10))
	want(s, "the WRITE is acknowledged; an atomic", true, false, false)

	s = script.New(t, newWideRC)
	s.Post(script.Read(10))
	want(s, "a responder that may be foreign", false)
	s.Recv(only(psn))
	s.Post(script.Read(1<<16), script.Read(10)) // the first by two requests
	var got []bool
	for _, p := range s.Packets() {
		got = append(got, p.Overtakes)
	}
	for i, o := range got {
		if o != (i < len(got)-1) {
			t.Errorf("ordered memory: request %d of %d overtakes: %v", i, len(got), o)
		}
	}
}

// A lost READ request is asked for again by one request, when a response of a later one comes. It
// counts as one packet lost.
func TestLostReadRequest(t *testing.T) {
	s := script.New(t, newRC, relaxed)
	s.Post(script.Read(4*1024), script.Read(4*1024))
	s.WantDrain("sent", 2)
	s.Recv(middle(psn + 4))
	wantRead(t, s, "the first", psn, 4)
	s.WantCount("lost", roce.Lost, 1)
	for i := range ib.PSN(3) {
		s.Recv(middle(psn + i))
	}
	s.Recv(last(psn + 3))
	s.WantWC("the first", 1, ib.WCSuccess)
	s.Recv(middle(psn + 5))
	s.Recv(middle(psn + 6))
	s.Recv(last(psn + 7))
	s.WantWC("the second", 2, ib.WCSuccess)
	s.WantIdle("done")
}

// A READ that was answered before its turn tells of no receives: the MSN of its response leaves out
// the messages that the responder misses.
func TestEarlyResponseTellsOfNoReceives(t *testing.T) {
	s := script.New(t, newRC, relaxed)
	s.Post(script.Read(10))
	s.WantDrain("the first READ", 1)
	s.Recv(credited(psn, 1, wire.CreditsInvalid))
	s.WantWC("the first READ", 1, ib.WCSuccess)
	s.Post(script.Read(10), script.Read(10))
	s.WantDrain("the second is lost", 2)
	s.Recv(credited(psn+2, 1, wire.CreditCode(1)))
	s.WantPacket("the second again", wire.RCRDMAReadRequest, psn+1)
	s.Post(script.Send(1))
	s.WantPacket("nothing holds the SEND back", wire.RCSendOnly, psn+3)
	s.Recv(credited(psn+1, 3, wire.CreditsInvalid))
	s.Post(script.Read(10), script.Send(1))
	s.WantDrain("the next", 2)
	s.Recv(credited(psn+4, 5, wire.CreditCode(0)))
	s.Post(script.Send(1))
	s.WantQuiet("a response in its turn tells that there is none")
}

// credited is the only response of a READ of 10 bytes of a peer of Verbena, with credits.
func credited(psn ib.PSN, msn ib.MSN, code uint8) wire.Packet {
	p := script.Response(wire.RCRDMAReadResponseOnly, psn, script.Bytes(10, 1))
	p.Selective = true
	p.AETH = wire.AETH{Syndrome: wire.ACK(code), MSN: msn}
	return p
}
