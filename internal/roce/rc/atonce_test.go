// SPDX-License-Identifier: BSD-2-Clause

package rc_test

import (
	"testing"

	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/monotime"
	"verbena/internal/roce"
	"verbena/internal/testkit/script"
	wire "verbena/internal/wire/roce"
)

// atOnce is the number of kept requests that one call carries out.
const atOnce = 1024

// keptWrites has the machine keep n WRITEs of 8 bytes, each to the next address, behind one that is
// missing. It returns that one.
func keptWrites(s *script.Script, n int, selective bool) wire.Packet {
	write := func(i int) wire.Packet {
		p := writeAt(s, peerPSN.Add(uint32(i)), i*8, 8, byte(i))
		p.Selective = selective
		return p
	}
	s.Together(func() {
		for i := range n {
			s.Recv(write(i + 1))
		}
	})
	s.Packets()
	return write(0)
}

// A gap that fills has one call carry out so many of the requests behind it. The timer, due at
// once, has others go on. Each call acknowledges what it did, and all is in the peer's order.
func TestKeptInParts(t *testing.T) {
	const kept = 2*atOnce + 500
	for name, selective := range map[string]bool{"NAK": false, "SACK": true} {
		t.Run(name, func(t *testing.T) {
			b := mem.NewBudget(64 << 20)
			s := receiver(t, 100, budget(b))
			s.Recv(keptWrites(s, kept, selective))
			s.WantAck("the first part", peerPSN+atOnce, atOnce+1)
			s.WantMemory("up to there", 8*atOnce, script.Bytes(8, 0))
			s.WantUntouched("no farther", 8*(atOnce+1), 8)
			at := s.Machine.NextTimeout()
			if at <= s.Now || at > s.Now+1000 {
				t.Fatalf("the timer is due at %v, and it is %v", at, s.Now)
			}

			again := writeAt(s, peerPSN+atOnce+1, 8*(atOnce+1), 8, 99)
			s.Recv(again)
			s.WantQuiet("it is kept already")
			s.Recv(writeAt(s, peerPSN+2, 16, 8, 99))
			s.WantAck("done before", peerPSN+atOnce, atOnce+1)
			last := script.Request(wire.RCSendOnly, peerPSN+kept+1, script.Bytes(50, 7))
			last.Selective = selective
			s.Recv(last)
			s.WantQuiet("its turn has not come")
			s.WantNoWC("nor its completion")

			s.Advance(at.Sub(s.Now))
			s.WantAck("the second part", peerPSN+2*atOnce, 2*atOnce+1)
			s.WantUntouched("no farther", 8*(2*atOnce+1), 8)
			s.WantNoWC("the SEND is last")
			s.Advance(monotime.Microsecond)
			s.WantAck("all", peerPSN+kept+1, kept+2)
			for i := 7; i <= kept; i++ { // the SEND's bytes are before
				s.WantMemory("each", 8*i, script.Bytes(8, byte(i)))
			}
			s.WantRecvWC("the SEND", 1001, ib.WCSuccess)
			s.WantIdle("done")
			if b.Left() != 64<<20 {
				t.Errorf("%d bytes were not given back", 64<<20-b.Left())
			}
		})
	}
}

// Packets that arrive meanwhile do not put off the next part.
func TestKeptPartIsNotPutOff(t *testing.T) {
	s := script.New(t, newRC)
	s.Recv(keptWrites(s, atOnce+10, true))
	at := s.Machine.NextTimeout()
	s.Now = at.Add(monotime.Microsecond)
	s.Recv(writeAt(s, peerPSN+atOnce+1, 8*(atOnce+1), 8, 99))
	if due := s.Machine.NextTimeout(); due != at {
		t.Errorf("due at %v, then at %v", at, due)
	}
}

// The responder reports a gap behind the requests whose turn has come once these are carried out.
// An earlier report would say that the next of them is missing.
func TestGapBehindKeptInParts(t *testing.T) {
	const kept = atOnce + 10
	for name, selective := range map[string]bool{"NAK": false, "SACK": true} {
		t.Run(name, func(t *testing.T) {
			s := script.New(t, newRC)
			first := keptWrites(s, kept, selective)
			behind := writeAt(s, peerPSN+kept+2, 0, 8, 1)
			behind.Selective, behind.AckReq = selective, true
			s.Together(func() { // where a SACK was to be sent already
				s.Recv(behind)
				s.Recv(first)
			})
			s.WantAck("the first part", peerPSN+atOnce, atOnce+1)
			behind.PSN++
			s.Recv(behind)
			s.WantQuiet("more behind the gap")
			s.Advance(monotime.Microsecond)
			s.WantAck("the rest", peerPSN+kept, kept+1)
			missing := peerPSN + kept + 1
			if selective {
				wantSack(t, s, "what is missing", missing+3, gap(missing, missing))
			} else {
				s.WantNak("what is missing", missing, wire.NAKPSNSequence)
			}
			s.Recv(writeAt(s, missing, 0, 8, 1))
			s.WantAck("all", missing+2, kept+4)
			s.WantIdle("done")
		})
	}
}

// Requests within the PSNs of a READ are none. Where there are more than one call carries out,
// nothing is kept any more.
func TestKeptWithinLongRead(t *testing.T) {
	const packets = 4096
	for within, left := range map[int]bool{atOnce - 1: true, atOnce: false, 3 * atOnce: false} {
		b := mem.NewBudget(64 << 20)
		s := script.New(t, newRC, budget(b), attr(func(a *ib.QPAttr) { a.PathMTU = ib.MTU256 }))
		large, err := s.Mem.Register(script.PD, make([]byte, 256*packets), 1<<32, ib.AccessRemoteRead)
		if err != nil {
			t.Fatal(err)
		}
		read := script.Request(wire.RCRDMAReadRequest, peerPSN, nil)
		read.RETH = wire.RETH{VA: 1 << 32, RKey: large.RKey(), DMALen: 256 * packets}
		keptWrites(s, within, true)
		s.Recv(writeAt(s, peerPSN+packets, 0, 8, 1))
		s.Recv(read)
		want, answers := script.Bytes(8, 2), packets
		if left {
			want, answers = script.Bytes(8, 1), packets+1
		}
		s.WantDrain("the READ's, and of what is kept behind it", answers)
		s.Recv(writeAt(s, peerPSN+packets, 0, 8, 2))
		s.WantAck("new, or again", peerPSN+packets, 2)
		s.WantMemory("the first that came", 0, want)
		s.WantIdle("done")
		if b.Left() != 64<<20 {
			t.Errorf("%d bytes were not given back", 64<<20-b.Left())
		}
	}
}

// The end of a queue pair leaves nothing of the requests that wait for the timer.
func TestKeptInPartsEnds(t *testing.T) {
	for name, end := range map[string]func(s *script.Script){
		"ERR":   func(s *script.Script) { s.SetState(ib.QPErr) },
		"RESET": func(s *script.Script) { s.SetState(ib.QPReset) },
		"gone":  func(s *script.Script) { s.Machine.(interface{ Discard() }).Discard() },
		"refused": func(s *script.Script) {
			if err := s.Mem.Deregister(s.MR); err != nil {
				panic(err)
			}
			s.Advance(monotime.Microsecond)
			s.WantNak("its key has gone", peerPSN+atOnce+1, wire.NAKRemoteAccess)
			s.WantEvent("told", ib.EventQPAccessErr)
			s.WantState("over", ib.QPErr)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := mem.NewBudget(64 << 20)
			s := script.New(t, newRC, budget(b))
			s.Recv(keptWrites(s, 3*atOnce, false))
			s.WantAck("the first part", peerPSN+atOnce, atOnce+1)
			end(s)
			s.WantIdle("no timer is left")
			if b.Left() != 64<<20 {
				t.Errorf("%d bytes were not given back", 64<<20-b.Left())
			}
		})
	}
}

// A SEND for which no receive is posted ends a part, too: the requester repeats it, and the others
// then go on.
func TestKeptInPartsNotReady(t *testing.T) {
	s := script.New(t, newRC)
	const at = atOnce + 5
	first := keptWrites(s, at-1, false)
	send := script.Request(wire.RCSendOnly, peerPSN+at, script.Bytes(8, 1))
	s.Recv(send)
	s.Recv(writeAt(s, peerPSN+at+1, at*8, 8, 2))
	s.Recv(first)
	s.WantAck("the first part", peerPSN+atOnce, atOnce+1)
	s.Advance(monotime.Microsecond)
	s.WantAck("up to the SEND", peerPSN+at-1, at)
	s.WantNak("no receive", peerPSN+at, wire.RNRNAK(12))
	s.PostRecv(0, 10)
	s.Recv(send)
	s.WantAck("both", peerPSN+at+1, at+2)
	s.WantRecvWC("received", 1001, ib.WCSuccess)
	s.WantIdle("done")
	s.WantCount("kept once each", roce.NotKept, 0)
}

// Requests for another process's queue are passed on in parts as well. Their answers let the next
// part go on as the timer does.
func TestXRCKeptInParts(t *testing.T) {
	x := newSharing(t)
	const kept = 2*atOnce + 100
	x.PostRecv(0, 100)
	x.Recv(send(theirs, peerPSN+kept+1))
	x.wantAnswer(t, "a gap", peerPSN, wire.NAKPSNSequence)
	x.Together(func() {
		for i := kept; i > 0; i-- {
			x.Recv(forSRQ(ours, writeAt(x.Script, peerPSN.Add(uint32(i)), 8*i, 8, byte(i))))
		}
	})
	x.Packets()
	x.Recv(forSRQ(ours, writeAt(x.Script, peerPSN, 0, 8, 0)))
	x.wantAnswer(t, "the first part", peerPSN+atOnce, noCredits)
	x.Advance(monotime.Second)
	x.wantAnswer(t, "the second part", peerPSN+2*atOnce, noCredits)
	x.wantAnswer(t, "the third part", peerPSN+kept, noCredits)
	x.takes(7, &x.their)
	x.their.wantPassed(t, "behind them", 0)
	x.answers(0, noCredits)
	x.wantAnswer(t, "the last", peerPSN+kept+1, noCredits)
	for i := range kept + 1 {
		x.WantMemory("each", 8*i, script.Bytes(8, byte(i)))
	}
	x.WantIdle("done")
}
