// SPDX-License-Identifier: BSD-2-Clause

package rc_test

import (
	"encoding/binary"
	"testing"

	"verbena/ib"
	"verbena/internal/congestion"
	"verbena/internal/mem"
	"verbena/internal/monotime"
	"verbena/internal/roce"
	"verbena/internal/roce/rc"
	"verbena/internal/testkit/script"
	wire "verbena/internal/wire/roce"
)

// budget makes the machine take the memory for requests that arrive before their turn from b.
func budget(b *mem.Budget) func(*script.Setup) {
	return func(s *script.Setup) { s.Reorder = b }
}

// writeAt is a WRITE of one packet with n bytes to an offset.
func writeAt(s *script.Script, psn ib.PSN, off, n int, mark byte) wire.Packet {
	return s.At(script.Request(wire.RCRDMAWriteOnly, psn, script.Bytes(n, mark)), off, n)
}

// A request that arrives after a gap has no effect until the gap fills. Then all requests are
// executed in order, and one acknowledgement covers them. Requests that a requester repeats in
// go-back-N are duplicates.
func TestKeptAfterGap(t *testing.T) {
	b := mem.NewBudget(1 << 20)
	s := receiver(t, 100, budget(b))
	s.Recv(writeAt(s, peerPSN+1, 0, 1000, 1))
	s.WantNak("the first is missing", peerPSN, wire.NAKPSNSequence)
	s.Recv(writeAt(s, peerPSN+2, 1000, 1000, 2))
	s.Recv(script.Request(wire.RCSendOnly, peerPSN+3, script.Bytes(50, 3)))
	s.WantQuiet("told already")
	s.WantNoWC("its turn has not come")
	s.WantUntouched("nor theirs", 0, 3000)
	first := writeAt(s, peerPSN, 0, 1000, 9)
	s.Recv(first)
	s.WantAck("all at once", peerPSN+3, 4)
	s.WantMemory("WRITEs in order: the later one is what is seen", 1000, script.Bytes(1000, 2))
	s.WantRecvWC("SEND", 1001, ib.WCSuccess)
	s.WantMemory("its bytes came last", 0, script.Bytes(50, 3))
	s.WantMemory("above the second WRITE's", 50, script.Bytes(1000, 1)[50:])
	for i := range ib.PSN(3) {
		s.Recv(writeAt(s, peerPSN+i, 0, 1000, 7))
		s.WantAck("a duplicate", peerPSN+3, 4)
	}
	s.WantMemory("which changes nothing", 0, script.Bytes(50, 3))
	s.WantCount("kept", roce.Kept, 3)
	s.WantCount("kept", roce.NotKept, 0)
	s.WantIdle("done")
	if b.Left() != 1<<20 {
		t.Errorf("%d bytes were not given back", 1<<20-b.Left())
	}
}

// The second of two gaps is told of when something arrives after it again: that it was
// repeated meanwhile is likely, as a requester goes back N.
func TestTwoGaps(t *testing.T) {
	s := script.New(t, newRC)
	for _, i := range []ib.PSN{1, 3, 4} {
		s.Recv(writeAt(s, peerPSN+i, int(i)*10, 10, byte(i)))
	}
	s.WantNak("the first gap", peerPSN, wire.NAKPSNSequence)
	s.Recv(writeAt(s, peerPSN, 0, 10, 0))
	s.WantAck("to the second gap", peerPSN+1, 2)
	s.WantQuiet("the second gap has no NAK yet")
	s.Recv(writeAt(s, peerPSN+1, 10, 10, 1))
	s.WantAck("a duplicate", peerPSN+1, 2)
	s.Recv(writeAt(s, peerPSN+3, 30, 10, 3))
	s.WantNak("lost again", peerPSN+2, wire.NAKPSNSequence)
	s.Recv(writeAt(s, peerPSN+2, 20, 10, 2))
	s.WantAck("all", peerPSN+4, 5)
	for i := range 5 {
		s.WantMemory("each", i*10, script.Bytes(10, byte(i)))
	}
}

// READs and atomics after a gap are executed once, in their turn, and answered in order.
func TestKeptReadsAndAtomics(t *testing.T) {
	s := script.New(t, newRC)
	binary.NativeEndian.PutUint64(s.Memory[4096:], 5)
	add := s.At(script.Request(wire.RCFetchAdd, peerPSN+1, nil), 4096, 0)
	add.AtomicETH.SwapAdd = 3
	s.Recv(add)
	s.WantNak("the WRITE is missing", peerPSN, wire.NAKPSNSequence)
	read := s.At(script.Request(wire.RCRDMAReadRequest, peerPSN+2, nil), 0, 2000)
	s.Recv(read)
	s.Recv(writeAt(s, peerPSN+4, 0, 8, 7)) // after the two packets of the response
	s.Recv(add)
	s.Recv(read)
	s.WantQuiet("repeated meanwhile")
	s.Recv(writeAt(s, peerPSN, 0, 1000, 1))
	s.WantAck("WRITE", peerPSN, 1)
	if p := s.WantPacket("atomic", wire.RCAtomicAcknowledge, peerPSN+1); p.AtomicAck.Orig != 5 {
		t.Fatal(p.AtomicAck.Orig)
	}
	s.WantPacket("READ", wire.RCRDMAReadResponseFirst, peerPSN+2)
	s.WantPacket("READ", wire.RCRDMAReadResponseLast, peerPSN+3)
	s.WantAck("the last WRITE", peerPSN+4, 4)
	if v := binary.NativeEndian.Uint64(s.Memory[4096:]); v != 8 {
		t.Fatalf("added more than once: %d", v)
	}
	s.Recv(add)
	s.WantPacket("replayed", wire.RCAtomicAcknowledge, peerPSN+1)
	s.WantCount("from the saved result", roce.AtomicReplay, 1)
}

// Of two packets with one PSN the first that came counts, before and after the gap fills.
func TestKeptTwice(t *testing.T) {
	b := mem.NewBudget(1 << 20)
	s := script.New(t, newRC, budget(b))
	s.Recv(writeAt(s, peerPSN+1, 100, 100, 1))
	s.WantNak("the first is missing", peerPSN, wire.NAKPSNSequence)
	left := b.Left()
	s.Recv(writeAt(s, peerPSN+1, 100, 100, 2))
	s.Recv(writeAt(s, peerPSN+1, 3000, 1000, 3))
	if b.Left() != left {
		t.Error("memory for the same PSN twice")
	}
	s.Recv(writeAt(s, peerPSN, 0, 100, 4))
	s.WantAck("both", peerPSN+1, 2)
	s.WantMemory("the first", 100, script.Bytes(100, 1))
	s.WantUntouched("not the other", 3000, 1000)
}

// A request with a PSN that another takes is none: it goes when the other is executed.
func TestKeptWithinAnother(t *testing.T) {
	b := mem.NewBudget(1 << 20)
	s := script.New(t, newRC, budget(b))
	s.Recv(writeAt(s, peerPSN+2, 100, 100, 1))
	s.WantNak("the first is missing", peerPSN, wire.NAKPSNSequence)
	s.Recv(writeAt(s, peerPSN+6, 200, 100, 2))
	s.Recv(s.At(script.Request(wire.RCRDMAReadRequest, peerPSN, nil), 4096, 4*1024))
	s.WantDrain("the READ's four", 4)
	s.WantUntouched("the WRITE within is none", 100, 100)
	s.Recv(writeAt(s, peerPSN+4, 300, 100, 4))
	s.WantAck("here it goes on", peerPSN+4, 2)
	s.Recv(writeAt(s, peerPSN+5, 400, 100, 5))
	s.WantAck("up to the last one", peerPSN+6, 4)
	if b.Left() != 1<<20 {
		t.Errorf("%d bytes were not given back", 1<<20-b.Left())
	}
}

// Garbage after a gap does harm when its turn comes, as it would have without the gap, and not
// before.
func TestGarbageAfterGap(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(s *script.Script, p *wire.Packet)
		code  wire.Syndrome
		event ib.EventType
	}{
		"no first packet": {func(_ *script.Script, p *wire.Packet) { p.Opcode = wire.RCRDMAWriteLast },
			wire.NAKInvalidRequest, ib.EventQPReqErr},
		"bad key": {func(_ *script.Script, p *wire.Packet) { p.RETH.RKey ^= 0x1000 },
			wire.NAKRemoteAccess, ib.EventQPAccessErr},
		"too long": {func(_ *script.Script, p *wire.Packet) { p.Payload = script.Bytes(2000, 1) },
			wire.NAKInvalidRequest, ib.EventQPReqErr},
		"key gone meanwhile": {func(s *script.Script, _ *wire.Packet) {
			if err := s.Mem.Deregister(s.MR); err != nil {
				panic(err)
			}
		}, wire.NAKRemoteAccess, ib.EventQPAccessErr},
	} {
		t.Run(name, func(t *testing.T) {
			b := mem.NewBudget(1 << 20)
			s := script.New(t, newRC, budget(b))
			bad := writeAt(s, peerPSN+1, 0, 10, 1)
			c.spoil(s, &bad)
			s.Recv(bad)
			s.WantNak("the first is missing", peerPSN, wire.NAKPSNSequence)
			s.Recv(writeAt(s, peerPSN+2, 100, 10, 2))
			established(s)
			s.Recv(script.Request(wire.RCRDMAWriteOnly, peerPSN, nil)) // of no bytes: checks no key
			s.WantAck("the first is good", peerPSN, 1)
			s.WantNak("not the second", peerPSN+1, c.code)
			s.WantEvent("told", c.event)
			s.WantState("over", ib.QPErr)
			s.WantUntouched("the third is not executed", 100, 10)
			if b.Left() != 1<<20 {
				t.Errorf("%d bytes were not given back", 1<<20-b.Left())
			}
		})
	}
}

// An opcode that is not known, or a READ of more PSNs than may be kept, is not kept. Neither is a
// request too far after the gap. It takes no memory.
func TestNotKept(t *testing.T) {
	b := mem.NewBudget(64 << 20)
	s := script.New(t, newRC, budget(b))
	unknown := script.Request(0x15, peerPSN+1, nil)
	long := s.At(script.Request(wire.RCRDMAReadRequest, peerPSN+1, nil), 0, 1<<30)
	huge := s.At(script.Request(wire.RCRDMAReadRequest, peerPSN+1, nil), 0, 1<<32-1)
	s.Recv(unknown)
	s.WantNak("a gap", peerPSN, wire.NAKPSNSequence)
	s.Recv(long)
	s.Recv(huge)
	s.Recv(writeAt(s, peerPSN+1<<18, 0, 10, 1))
	s.Recv(writeAt(s, peerPSN+1<<22, 0, 10, 1))
	s.Recv(writeAt(s, peerPSN.Add(1<<23-1), 0, 10, 1))
	s.WantCount("none", roce.Kept, 0)
	s.WantCount("all", roce.NotKept, 6)
	if b.Left() != 64<<20 {
		t.Error("memory was taken")
	}
	s.Recv(writeAt(s, peerPSN+1<<18-1, 0, 10, 1))
	s.WantCount("the farthest", roce.Kept, 1)
	s.Recv(writeAt(s, peerPSN, 0, 10, 1))
	s.WantAck("the gap goes on", peerPSN, 1)
}

// A peer that never fills its gap gets half of the memory; further requests are dropped, as without
// reordering. A reset or the end of the queue pair returns all memory.
func TestKeptMemoryIsBounded(t *testing.T) {
	const all = 1 << 20
	for name, end := range map[string]func(s *script.Script){
		"filled": func(s *script.Script) { s.Recv(writeAt(s, peerPSN, 0, 10, 1)) },
		"ERR":    func(s *script.Script) { s.SetState(ib.QPErr) },
		"RESET":  func(s *script.Script) { s.SetState(ib.QPReset) },
		"RQPSN":  func(s *script.Script) { s.Modify(ib.QPAttr{RQPSN: 7}, ib.QPRQPSN) },
		"gone":   func(s *script.Script) { s.Machine.(*rc.QP).Discard() },
	} {
		t.Run(name, func(t *testing.T) {
			b := mem.NewBudget(all)
			s := script.New(t, newRC, budget(b))
			for i := range ib.PSN(2000) {
				s.Recv(writeAt(s, peerPSN+1+i, 0, 1024, 1))
			}
			if used := all - b.Left(); used > all/2 || used < all*4/10 {
				t.Errorf("%d of %d bytes taken", used, all)
			}
			if n := s.Machine.Counters()[roce.NotKept]; n < 1500 {
				t.Errorf("%d not kept", n)
			}
			end(s)
			if b.Left() != all {
				t.Errorf("%d bytes were not given back", all-b.Left())
			}
		})
	}
}

// A requester does not send more after a packet that is missing than the responder keeps, however
// large the window is.
func TestSpanIsKept(t *testing.T) {
	for _, mtu := range []ib.MTU{ib.MTU256, ib.MTU1024, ib.MTU4096} {
		s := script.New(t, newRC, attr(func(a *ib.QPAttr) { a.PathMTU = mtu }))
		q := s.Machine.(*rc.QP)
		for _, window := range []int{8 << 20, 64 << 20, congestion.Most} {
			if n := q.SpanBytes(window); n > rc.ReorderBytes/2 {
				t.Errorf("path MTU %d, window %d: %d bytes to keep", mtu.Bytes(), window, n)
			}
		}
	}
}

// A queue pair that is connected again knows nothing of the requests that it kept before.
func TestKeptIsForgottenByReset(t *testing.T) {
	s := script.New(t, newRC)
	s.Recv(writeAt(s, peerPSN+1, 0, 10, 1))
	s.SetState(ib.QPReset)
	s.Connect()
	s.Recv(writeAt(s, peerPSN, 100, 10, 2))
	s.WantNak("of before", peerPSN, wire.NAKPSNSequence)
	s.WantAck("only this", peerPSN, 1)
	s.WantUntouched("not what was kept", 0, 10)
}

// A SEND after a gap for which no receive is posted is refused when its turn comes, and comes
// again. The requests behind it stay.
func TestKeptNotReady(t *testing.T) {
	s := script.New(t, newRC)
	s.Recv(script.Request(wire.RCSendOnly, peerPSN+1, script.Bytes(10, 1)))
	s.WantNak("a gap", peerPSN, wire.NAKPSNSequence)
	s.Recv(writeAt(s, peerPSN+2, 1000, 10, 2))
	s.Recv(writeAt(s, peerPSN, 2000, 10, 3))
	s.WantAck("the first", peerPSN, 1)
	s.WantNak("no receive", peerPSN+1, wire.RNRNAK(12))
	s.WantUntouched("the WRITE waits", 1000, 10)
	s.PostRecv(0, 10)
	s.Recv(script.Request(wire.RCSendOnly, peerPSN+1, script.Bytes(10, 1)))
	s.WantAck("both", peerPSN+2, 3)
	s.WantRecvWC("received", 1001, ib.WCSuccess)
	s.WantMemory("written", 1000, script.Bytes(10, 2))
}

// A target keeps, too: each request goes to the shared receive queue that it names.
func TestXRCKept(t *testing.T) {
	x := newTarget(t)
	x.PostRecv(0, 100)
	if err := x.other.Post(77, []ib.SGE{{Addr: 0x90000, Length: 100, LKey: x.mr.LKey()}}); err != nil {
		t.Fatal(err)
	}
	send := func(n ib.SRQN, psn ib.PSN) {
		x.Recv(forSRQ(n, script.Request(wire.RCSendOnly, psn, script.Bytes(10, byte(n)))))
	}
	send(others, peerPSN+1)
	x.wantAnswer(t, "a gap", peerPSN, wire.NAKPSNSequence)
	send(nowhere, peerPSN+2)
	send(ours, peerPSN)
	x.wantAnswer(t, "both", peerPSN+1, noCredits)
	x.wantAnswer(t, "there is no third queue", peerPSN+2, wire.NAKRemoteAccess)
	x.WantRecvWC("ours", 1001, ib.WCSuccess)
	x.WantRecvWC("the other", 77, ib.WCSuccess)
	x.WantState("over", ib.QPErr)
}

// Long packets, which go by memory, are kept with the PSNs that they take.
func TestLongPacketKept(t *testing.T) {
	s := script.New(t, newRC, inRing)
	s.Recv(s.At(long(wire.RCRDMAWriteFirst, peerPSN+1, 8<<10, 8), 0, 9<<10))
	s.WantNak("a gap", peerPSN, wire.NAKPSNSequence)
	s.Recv(long(wire.RCRDMAWriteLast, peerPSN+9, 1<<10, 1))
	s.Recv(s.At(long(wire.RCRDMAWriteOnly, peerPSN, 10, 1), 20<<10, 10))
	s.WantAck("all", peerPSN+9, 2)
	s.WantMemory("in place", 0, script.Bytes(8<<10, 0xf5)) // the mark of PSN 501
}

// A peer that sends each second PSN makes so many gaps, and no more. One that fills a gap is kept.
func TestGapsAreBounded(t *testing.T) {
	const most = 1 << 15
	for name, step := range map[string]int{"rising": 2, "falling": -2} {
		t.Run(name, func(t *testing.T) {
			b := mem.NewBudget(64 << 20)
			s := script.New(t, newRC, budget(b))
			at := peerPSN + 2
			if step < 0 {
				at += 2 * most
			}
			for range most + 1 {
				s.Recv(writeAt(s, at, 0, 10, 1))
				at = at.Add(uint32(step) & 0xffffff)
			}
			s.WantCount("one too many", roce.NotKept, 1)
			s.Recv(writeAt(s, peerPSN+5, 0, 10, 1))
			s.WantCount("no more gaps", roce.Kept, most+1)
		})
	}
}

// Reading and dropping the requests of a lying peer takes bounded time: PSNs in falling order each
// take a slot.
func TestKeptBackwards(t *testing.T) {
	b := mem.NewBudget(64 << 20)
	s := script.New(t, newRC, budget(b))
	const n = 1 << 15
	for i := ib.PSN(n); i > 0; i-- {
		s.Recv(writeAt(s, peerPSN+i, 0, 10, 1))
	}
	s.WantNak("a gap", peerPSN, wire.NAKPSNSequence)
	s.Recv(writeAt(s, peerPSN, 0, 10, 1))
	s.Advance(monotime.Second)
	acks := s.Packets()
	if last := acks[len(acks)-1]; len(acks) != n/atOnce || last.PSN != peerPSN+n {
		t.Errorf("%d acknowledgements, the last of %v", len(acks), last.PSN)
	}
	s.WantCount("kept", roce.Kept, n)
	if b.Left() != 64<<20 {
		t.Errorf("%d bytes were not given back", 64<<20-b.Left())
	}
	s.WantIdle("done")
}
