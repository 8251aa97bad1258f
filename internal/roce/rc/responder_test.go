// SPDX-License-Identifier: BSD-2-Clause

package rc_test

import (
	"encoding/binary"
	"fmt"
	"testing"

	"verbena/ib"
	"verbena/internal/roce"
	"verbena/internal/testkit/script"
	wire "verbena/internal/wire/roce"
)

// receiver returns a script with one receive of n bytes posted at offset 0.
func receiver(t *testing.T, n int, options ...func(*script.Setup)) *script.Script {
	s := script.New(t, newRC, options...)
	s.PostRecv(0, n)
	return s
}

func established(s *script.Script) { s.WantState("alive", ib.QPRTS) }

func TestSendReceived(t *testing.T) {
	s := receiver(t, 4096)
	s.Recv(script.Request(wire.RCSendFirst, peerPSN, script.Bytes(1024, 1)))
	s.Recv(script.Request(wire.RCSendMiddle, peerPSN+1, script.Bytes(1024, 2)))
	s.WantQuiet("no acknowledgement was asked for")
	p := script.Request(wire.RCSendLastImm, peerPSN+2, script.Bytes(100, 3))
	p.ImmDt.Data = 0x12345678
	s.Recv(p)
	s.WantAck("one for all", peerPSN+2, 1)
	wc := s.WantRecvWC("received", 1001, ib.WCSuccess)
	if wc.ByteLen != 2148 || wc.Opcode != ib.WCRecv || wc.Flags != ib.WCWithImm || wc.ImmData != 0x12345678 || wc.SrcQP != script.PeerQPN {
		t.Fatalf("%+v", wc)
	}
	s.WantMemory("second packet", 1024, script.Bytes(1024, 2))
	s.WantUntouched("after the message", 2148, 100)
	s.WantIdle("done")
}

// The receive's scatter list is filled element by element.
func TestScatter(t *testing.T) {
	s := script.New(t, newRC)
	s.PostRecvList(s.SGE(10, 3), s.SGE(50, 0), s.SGE(100, 1500), s.SGE(5000, 3000))
	data := append(script.Bytes(1024, 1), script.Bytes(900, 2)...)
	s.Recv(script.Request(wire.RCSendFirst, peerPSN, data[:1024]))
	s.Recv(script.Request(wire.RCSendLast, peerPSN+1, data[1024:]))
	s.WantRecvWC("received", 1001, ib.WCSuccess)
	s.WantMemory("first element", 10, data[:3])
	s.WantMemory("third element", 100, data[3:1503])
	s.WantMemory("fourth element", 5000, data[1503:])
	s.WantUntouched("between", 13, 87)
}

// A WRITE of several packets lands whole; it takes no receive unless it has
// immediate data.
func TestWriteReceived(t *testing.T) {
	s := receiver(t, 0)
	s.Recv(s.At(script.Request(wire.RCRDMAWriteFirst, peerPSN, script.Bytes(1024, 1)), 200, 2100))
	s.Recv(script.Request(wire.RCRDMAWriteMiddle, peerPSN+1, script.Bytes(1024, 2)))
	s.Recv(script.Request(wire.RCRDMAWriteLast, peerPSN+2, script.Bytes(52, 3)))
	s.WantAck("done", peerPSN+2, 1)
	s.WantNoWC("nobody is told")
	s.WantMemory("first", 200, script.Bytes(1024, 1))
	s.WantMemory("middle", 1224, script.Bytes(1024, 2))
	s.WantMemory("last", 2248, script.Bytes(52, 3))
	s.WantUntouched("before", 0, 200)
	s.WantUntouched("after", 2300, 200)
	p := s.At(script.Request(wire.RCRDMAWriteOnlyImm, peerPSN+3, script.Bytes(8, 4)), 0, 8)
	p.ImmDt.Data = 9
	s.Recv(p)
	wc := s.WantRecvWC("told", 1001, ib.WCSuccess)
	if wc.Opcode != ib.WCRecvRDMAWithImm || wc.ByteLen != 8 || wc.ImmData != 9 {
		t.Fatalf("%+v", wc)
	}
	s.WantAck("acknowledged", peerPSN+3, 2)
}

// Several requests before the machine may send are acknowledged together.
func TestCoalescedAck(t *testing.T) {
	s := script.New(t, newRC)
	for range 5 {
		s.PostRecv(0, 10)
	}
	s.Together(func() {
		for i := range ib.PSN(5) {
			s.Recv(script.Request(wire.RCSendOnly, peerPSN+i, nil))
		}
	})
	s.WantAck("one for five", peerPSN+4, 5)
	s.WantQuiet("no more")
}

func TestSolicited(t *testing.T) {
	s := receiver(t, 10)
	s.PostRecv(0, 10)
	s.Recv(script.Request(wire.RCSendOnly, peerPSN, nil))
	p := script.Request(wire.RCSendOnly, peerPSN+1, nil)
	p.Solicited = true
	s.Recv(p)
	s.WantSolicited("plain", 1001, false)
	s.WantSolicited("solicited", 1002, true)
}

// A gap is reported once, with the missing PSN. Packets after it count once it is filled.
func TestSequenceNAK(t *testing.T) {
	s := receiver(t, 4096)
	s.Recv(script.Request(wire.RCSendFirst, peerPSN, script.Bytes(1024, 1)))
	s.Recv(script.Request(wire.RCSendMiddle, peerPSN+2, script.Bytes(1024, 3)))
	s.WantNak("the second is missing", peerPSN+1, wire.NAKPSNSequence)
	s.Recv(script.Request(wire.RCSendLast, peerPSN+3, script.Bytes(1024, 4)))
	s.WantQuiet("told already")
	s.WantNoWC("a part is missing")
	s.Recv(script.Request(wire.RCSendMiddle, peerPSN+1, script.Bytes(1024, 2)))
	s.WantAck("whole", peerPSN+3, 1)
	s.WantRecvWC("received", 1001, ib.WCSuccess)
	for i := range 4 {
		s.WantMemory("in order", 1024*i, script.Bytes(1024, byte(i+1)))
	}
}

// A gap that fills is acknowledged unasked, as Linux's rxe ignores a second NAK until then.
func TestFilledGapIsAcknowledged(t *testing.T) {
	s := receiver(t, 4096)
	s.Recv(script.Request(wire.RCSendMiddle, peerPSN+1, script.Bytes(1024, 2)))
	s.WantNak("the first is missing", peerPSN, wire.NAKPSNSequence)
	s.Recv(script.Request(wire.RCSendFirst, peerPSN, script.Bytes(1024, 1)))
	s.WantAck("unasked", peerPSN+1, 0)
	s.Recv(script.Request(wire.RCSendMiddle, peerPSN+3, script.Bytes(1024, 3)))
	s.WantNak("another gap", peerPSN+2, wire.NAKPSNSequence)
}

// A repeated SEND or WRITE is acknowledged again and executed no more.
func TestDuplicateRequest(t *testing.T) {
	s := receiver(t, 100)
	s.PostRecv(100, 100)
	s.Recv(script.Request(wire.RCSendOnly, peerPSN, script.Bytes(100, 1)))
	s.Recv(s.At(script.Request(wire.RCRDMAWriteOnly, peerPSN+1, script.Bytes(100, 2)), 1000, 100))
	s.WantAck("SEND", peerPSN, 1)
	s.WantAck("WRITE", peerPSN+1, 2)
	copy(s.Memory[1000:], script.Bytes(100, 9)) // ours again
	s.Recv(script.Request(wire.RCSendOnly, peerPSN, script.Bytes(100, 1)))
	s.WantAck("to the newest received", peerPSN+1, 2)
	s.Recv(s.At(script.Request(wire.RCRDMAWriteOnly, peerPSN+1, script.Bytes(100, 2)), 1000, 100))
	s.WantAck("again", peerPSN+1, 2)
	s.WantRecvWC("once", 1001, ib.WCSuccess)
	s.WantNoWC("once")
	s.WantMemory("not written twice", 1000, script.Bytes(100, 9))
	s.WantCount("counted", roce.DuplicateRequest, 2)
}

// A repeated READ is executed again, from where it is repeated, with the
// memory as it is now.
func TestDuplicateRead(t *testing.T) {
	s := script.New(t, newRC)
	copy(s.Memory, script.Bytes(3000, 1))
	s.Recv(s.At(script.Request(wire.RCRDMAReadRequest, peerPSN, nil), 0, 3000))
	for i, op := range []wire.Opcode{wire.RCRDMAReadResponseFirst, wire.RCRDMAReadResponseMiddle, wire.RCRDMAReadResponseLast} {
		p := s.WantPacket("response", op, peerPSN+ib.PSN(i))
		if want := s.Memory[i*1024 : min(3000, i*1024+1024)]; string(p.Payload) != string(want) {
			t.Fatal("wrong data")
		}
		if p.Info.HasAETH && p.AETH.MSN != 1 {
			t.Fatalf("MSN %d", p.AETH.MSN)
		}
	}
	s.Memory[2000] = 0x55
	s.Recv(s.At(script.Request(wire.RCRDMAReadRequest, peerPSN+1, nil), 1024, 3000-1024))
	p := s.WantPacket("the rest", wire.RCRDMAReadResponseFirst, peerPSN+1)
	if p.Payload[2000-1024] != 0x55 {
		t.Fatal("not executed again")
	}
	s.WantPacket("the rest", wire.RCRDMAReadResponseLast, peerPSN+2)
	// A PSN that was never requested is no duplicate, though it is old.
	s.Recv(s.At(script.Request(wire.RCRDMAReadRequest, peerPSN+1, nil), 0, 50000))
	s.Recv(s.At(script.Request(wire.RCRDMAReadRequest, peerPSN-5, nil), 0, 1024))
	s.WantQuiet("ghosts get no data")
}

// A repeated atomic is answered from its saved result.
func TestAtomicReplay(t *testing.T) {
	s := script.New(t, newRC)
	binary.NativeEndian.PutUint64(s.Memory, 10)
	add := s.At(script.Request(wire.RCFetchAdd, peerPSN, nil), 0, 0)
	add.AtomicETH.SwapAdd = 5
	cas := s.At(script.Request(wire.RCCompareSwap, peerPSN+1, nil), 0, 0)
	cas.AtomicETH.Compare, cas.AtomicETH.SwapAdd = 15, 100
	for range 3 {
		s.Recv(add)
		if p := s.WantPacket("fetch-add", wire.RCAtomicAcknowledge, peerPSN); p.AtomicAck.Orig != 10 {
			t.Fatal(p.AtomicAck.Orig)
		}
	}
	for range 3 {
		s.Recv(cas)
		if p := s.WantPacket("compare-swap", wire.RCAtomicAcknowledge, peerPSN+1); p.AtomicAck.Orig != 15 {
			t.Fatal(p.AtomicAck.Orig)
		}
	}
	if v := binary.NativeEndian.Uint64(s.Memory); v != 100 {
		t.Fatalf("word is %d", v)
	}
	s.WantCount("replayed", roce.AtomicReplay, 4)
	// Four later, the first is forgotten and must not be executed again.
	for i := range ib.PSN(4) {
		s.Recv(s.At(script.Request(wire.RCFetchAdd, peerPSN+2+i, nil), 8, 0))
	}
	s.Packets()
	s.Recv(add)
	s.WantQuiet("forgotten")
	s.WantCount("counted", roce.AtomicForgotten, 1)
}

// No receive posted: RNR NAK with the timer, again each time it is tried, and
// the message goes through when one is there.
func TestReceiverNotReady(t *testing.T) {
	for _, imm := range []bool{false, true} {
		s := script.New(t, newRC)
		p := script.Request(wire.RCSendOnly, peerPSN, script.Bytes(10, 1))
		if imm {
			p = s.At(script.Request(wire.RCRDMAWriteOnlyImm, peerPSN, script.Bytes(10, 1)), 0, 10)
		}
		s.Recv(p)
		s.WantNak("not ready", peerPSN, wire.RNRNAK(12))
		next := p
		next.PSN++
		s.Recv(next)
		s.WantQuiet("what follows is thrown away in silence")
		s.Recv(p)
		s.WantNak("still not", peerPSN, wire.RNRNAK(12))
		s.WantUntouched("nothing placed", 0, 100)
		s.PostRecv(0, 100)
		s.Recv(p)
		s.WantAck("now", peerPSN, 1)
		s.WantRecvWC("received", 1001, ib.WCSuccess)
		established(s)
	}
}

// Credits tell how many receives are posted; a shared queue gives none.
func TestCreditsSent(t *testing.T) {
	s := receiver(t, 10)
	for range 5 {
		s.PostRecv(0, 10)
	}
	s.Recv(script.Request(wire.RCSendOnly, peerPSN, nil))
	p := s.WantAck("acknowledged", peerPSN, 1)
	if n, ok := wire.Credits(p.AETH.Syndrome.Value()); !ok || n != 4 { // 5 rounded down to a code
		t.Fatalf("%d credits (%v)", n, ok)
	}
	s = receiver(t, 10, func(s *script.Setup) { s.SRQ = true })
	s.Recv(script.Request(wire.RCSendOnly, peerPSN, nil))
	p = s.WantAck("acknowledged", peerPSN, 1)
	if p.AETH.Syndrome.Value() != wire.CreditsInvalid {
		t.Fatalf("credits of a shared receive queue: %d", p.AETH.Syndrome.Value())
	}
}

// After each place in a message, only some opcodes may follow; any other is an
// invalid request, told at once.
//
// Spec: IBTA vol. 1, table 38 (OpCode field), 9.7.4.1 (responder validation).
func TestOpcodeSequence(t *testing.T) {
	before := map[string][]wire.Opcode{
		"nothing":      nil,
		"SEND First":   {wire.RCSendFirst},
		"SEND Middle":  {wire.RCSendFirst, wire.RCSendMiddle},
		"SEND Last":    {wire.RCSendFirst, wire.RCSendLast},
		"WRITE First":  {wire.RCRDMAWriteFirst},
		"WRITE Middle": {wire.RCRDMAWriteFirst, wire.RCRDMAWriteMiddle},
		"WRITE Last":   {wire.RCRDMAWriteFirst, wire.RCRDMAWriteMiddle, wire.RCRDMAWriteMiddle, wire.RCRDMAWriteLast},
		"READ":         {wire.RCRDMAReadRequest},
		"atomic":       {wire.RCFetchAdd},
	}
	for name, list := range before {
		for o := range 256 {
			op := wire.Opcode(o)
			i := op.Info()
			if i.Service != wire.ServiceRC || i.Response {
				continue
			}
			t.Run(fmt.Sprintf("%v after %s", op, name), func(t *testing.T) {
				s := receiver(t, 65536)
				s.PostRecv(0, 65536)
				at := peerPSN
				total := 4096
				if i.Last && !i.First {
					total = 1024 * (len(list) + 1)
				}
				if len(list) == 4 {
					total = 4096
				}
				for _, o := range list {
					s.Recv(requestOf(s, o, at, total))
					at++
				}
				s.Packets()
				s.Recv(request(s, op, at))
				inside := len(list) > 0 && !list[len(list)-1].Info().Last
				legal := i.Valid && i.First == !inside
				if inside && legal {
					legal = i.Operation == list[0].Info().Operation
				}
				if legal && i.HasIETH {
					s.WantNak("legal, but a plain region cannot be invalidated", at, wire.NAKRemoteAccess)
					return
				}
				if legal {
					s.WantState("legal", ib.QPRTS)
					return
				}
				s.WantNak("illegal", at, wire.NAKInvalidRequest)
				s.WantState("over", ib.QPErr)
				s.WantEvent("told here too", ib.EventQPReqErr)
			})
		}
	}
}

// request is a well-formed request packet of its kind.
func request(s *script.Script, op wire.Opcode, at ib.PSN) wire.Packet {
	return requestOf(s, op, at, 4096)
}

// requestOf is one of a message of total bytes, if it takes several packets.
func requestOf(s *script.Script, op wire.Opcode, at ib.PSN, total int) wire.Packet {
	i := op.Info()
	n := 1024
	switch {
	case !i.HasPayload:
		n = 0
	case op == wire.RCAtomicWrite:
		n = 8
	case i.Only():
		n = 16
	}
	if i.Only() {
		total = n
	}
	p := s.At(script.Request(op, at, script.Bytes(n, 1)), 0, total)
	p.FETH.PLT = ib.FlushGlobal
	return p
}

// Packets of a wrong length are invalid requests.
//
// Spec: IBTA vol. 1, 9.7.4.1 (responder validation: length).
func TestLengthErrors(t *testing.T) {
	type step struct {
		op    wire.Opcode
		n     int
		total int
	}
	for name, steps := range map[string][]step{
		"First below the MTU":            {{wire.RCSendFirst, 1023, 0}},
		"First above the MTU":            {{wire.RCSendFirst, 1028, 0}},
		"Middle below the MTU":           {{wire.RCSendFirst, 1024, 0}, {wire.RCSendMiddle, 1000, 0}},
		"Last empty":                     {{wire.RCSendFirst, 1024, 0}, {wire.RCSendLast, 0, 0}},
		"Last above the MTU":             {{wire.RCSendFirst, 1024, 0}, {wire.RCSendLast, 1028, 0}},
		"Only above the MTU":             {{wire.RCSendOnly, 1028, 0}},
		"WRITE First below the MTU":      {{wire.RCRDMAWriteFirst, 1000, 4096}},
		"WRITE Only shorter than said":   {{wire.RCRDMAWriteOnly, 100, 200}},
		"WRITE Only longer than said":    {{wire.RCRDMAWriteOnly, 200, 100}},
		"WRITE First says one packet":    {{wire.RCRDMAWriteFirst, 1024, 1024}},
		"WRITE Last too early":           {{wire.RCRDMAWriteFirst, 1024, 4096}, {wire.RCRDMAWriteLast, 1024, 0}},
		"WRITE Middle where Last is due": {{wire.RCRDMAWriteFirst, 1024, 2048}, {wire.RCRDMAWriteMiddle, 1024, 0}},
		"WRITE Last too long":            {{wire.RCRDMAWriteFirst, 1024, 1500}, {wire.RCRDMAWriteLast, 600, 0}},
		"WRITE above 2^31":               {{wire.RCRDMAWriteFirst, 1024, 1<<31 + 1}},
		"READ above 2^31":                {{wire.RCRDMAReadRequest, 0, 1<<31 + 1}},
		"ATOMIC WRITE not 8":             {{wire.RCAtomicWrite, 4, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			s := receiver(t, 65536)
			at := peerPSN
			for i, st := range steps {
				s.Recv(s.At(script.Request(st.op, at, script.Bytes(st.n, 1)), 8192, st.total))
				if i < len(steps)-1 {
					s.WantState("so far so good", ib.QPRTS)
					at++
				}
			}
			s.WantNak("refused", at, wire.NAKInvalidRequest)
			s.WantState("over", ib.QPErr)
		})
	}
}

// A SEND longer than the receive ends it with a length error and is refused.
func TestSendTooLong(t *testing.T) {
	s := receiver(t, 1500)
	s.PostRecv(0, 10)
	s.Recv(script.Request(wire.RCSendFirst, peerPSN, script.Bytes(1024, 1)))
	s.Recv(script.Request(wire.RCSendLast, peerPSN+1, script.Bytes(477, 2)))
	s.WantNak("refused", peerPSN+1, wire.NAKInvalidRequest)
	s.WantRecvWC("too short", 1001, ib.WCLocLenErr)
	s.WantRecvWC("flushed", 1002, ib.WCWRFlushErr)
	s.WantUntouched("nothing beyond the receive", 1500, 100)
}

// A receive whose key does not allow writing is the responder's own fault.
func TestReceiveWrongLKey(t *testing.T) {
	s := script.New(t, newRC)
	g := s.SGE(0, 100)
	g.LKey++
	s.PostRecvList(g)
	s.Recv(script.Request(wire.RCSendOnly, peerPSN, script.Bytes(10, 1)))
	s.WantNak("operational", peerPSN, wire.NAKRemoteOperational)
	s.WantRecvWC("protection", 1001, ib.WCLocProtErr)
	s.WantUntouched("nothing placed", 0, 100)
}

// The requester hears at once of anything wrong with the remote memory of a request. (rxe left the
// requester of a bad rkey spinning.)
func TestRemoteAccess(t *testing.T) {
	type breaker func(s *script.Script, p *wire.Packet)
	bad := map[string]breaker{
		"no such key":      func(s *script.Script, p *wire.Packet) { p.RETH.RKey ^= 0xff00; p.AtomicETH.RKey ^= 0xff00 },
		"stale key":        func(s *script.Script, p *wire.Packet) { p.RETH.RKey++; p.AtomicETH.RKey++ },
		"below the region": func(s *script.Script, p *wire.Packet) { p.RETH.VA = script.Base - 8; p.AtomicETH.VA = script.Base - 8 },
		"beyond the region": func(s *script.Script, p *wire.Packet) {
			p.RETH.VA += uint64(len(s.Memory)) - 7
			p.AtomicETH.VA += uint64(len(s.Memory))
		},
		// CVE-2016-8636: iova + length wrapped around.
		"address wraps": func(s *script.Script, p *wire.Packet) { p.RETH.VA = ^uint64(0) - 3; p.AtomicETH.VA = ^uint64(7) },
	}
	for _, op := range []wire.Opcode{wire.RCRDMAWriteOnly, wire.RCRDMAReadRequest, wire.RCFetchAdd, wire.RCCompareSwap, wire.RCAtomicWrite, wire.RCFlush} {
		for name, f := range bad {
			t.Run(op.String()+" "+name, func(t *testing.T) {
				s := script.New(t, newRC)
				n := 0
				if op.Info().HasPayload {
					n = 8
				}
				p := s.At(script.Request(op, peerPSN, script.Bytes(n, 1)), 0, 8)
				p.FETH.PLT = ib.FlushGlobal
				f(s, &p)
				s.Recv(p)
				want := wire.NAKRemoteAccess
				if op == wire.RCAtomicWrite && p.RETH.VA&7 != 0 {
					want = wire.NAKInvalidRequest // misaligned comes first
				}
				s.WantNak("refused", peerPSN, want)
				s.WantState("over", ib.QPErr)
				s.WantUntouched("nothing placed", 0, 64)
				s.WantUntouched("nothing placed", len(s.Memory)-64, 64)
			})
		}
	}
}

// The length that a WRITE announces is checked as a whole before its first
// byte lands.
func TestWriteRangeCheckedFirst(t *testing.T) {
	s := script.New(t, newRC)
	off := len(s.Memory) - 1500
	s.Recv(s.At(script.Request(wire.RCRDMAWriteFirst, peerPSN, script.Bytes(1024, 1)), off, 2048))
	s.WantNak("refused", peerPSN, wire.NAKRemoteAccess)
	s.WantUntouched("nothing placed", off, 1500)
}

// A request that the queue pair was not set up for is an invalid request.
func TestQPAccessFlags(t *testing.T) {
	for op, flag := range map[wire.Opcode]ib.Access{
		wire.RCRDMAWriteOnly:   ib.AccessRemoteWrite,
		wire.RCRDMAReadRequest: ib.AccessRemoteRead,
		wire.RCFetchAdd:        ib.AccessRemoteAtomic,
		wire.RCFlush:           ib.AccessFlushGlobal,
	} {
		s := script.New(t, newRC, attr(func(a *ib.QPAttr) { a.AccessFlags &^= flag }))
		s.Recv(request(s, op, peerPSN))
		s.WantNak(op.String(), peerPSN, wire.NAKInvalidRequest)
	}
}

// Zero bytes need no key.
func TestZeroLength(t *testing.T) {
	s := script.New(t, newRC)
	p := script.Request(wire.RCRDMAWriteOnly, peerPSN, nil)
	p.RETH.RKey = 0xdead
	s.Recv(p)
	s.WantAck("WRITE", peerPSN, 1)
	p = script.Request(wire.RCRDMAReadRequest, peerPSN+1, nil)
	p.RETH.RKey = 0xdead
	s.Recv(p)
	s.WantPacket("READ", wire.RCRDMAReadResponseOnly, peerPSN+1)
	established(s)
}

// Atomics on memory other than an aligned word are invalid requests.
func TestMisalignedAtomic(t *testing.T) {
	for _, op := range []wire.Opcode{wire.RCFetchAdd, wire.RCCompareSwap} {
		s := script.New(t, newRC)
		s.Recv(s.At(script.Request(op, peerPSN, nil), 4, 0))
		s.WantNak("refused", peerPSN, wire.NAKInvalidRequest)
		s.WantUntouched("unchanged", 0, 16)
	}
}

// More READs and atomics than agreed are an invalid request.
func TestResponderDepth(t *testing.T) {
	s := script.New(t, newRC, attr(func(a *ib.QPAttr) { a.MaxDestRdAtomic = 2 }))
	s.Together(func() {
		for i := range ib.PSN(3) {
			s.Recv(s.At(script.Request(wire.RCRDMAReadRequest, peerPSN+i, nil), 0, 100))
		}
	})
	s.WantPacket("first", wire.RCRDMAReadResponseOnly, peerPSN)
	s.WantPacket("second", wire.RCRDMAReadResponseOnly, peerPSN+1)
	s.WantNak("too many", peerPSN+2, wire.NAKInvalidRequest)
}

// A NAK does not overtake the pending responses before it, and a requester that lost it, or them,
// hears again.
func TestRefusalAfterReads(t *testing.T) {
	s := script.New(t, newRC)
	read := s.At(script.Request(wire.RCRDMAReadRequest, peerPSN, nil), 0, 2000)
	bad := s.At(script.Request(wire.RCRDMAReadRequest, peerPSN+2, nil), 0, 100)
	bad.RETH.RKey++
	s.Together(func() {
		s.Recv(read)
		s.Recv(bad)
	})
	s.WantPacket("the good READ", wire.RCRDMAReadResponseFirst, peerPSN)
	s.WantPacket("the good READ", wire.RCRDMAReadResponseLast, peerPSN+1)
	s.WantNak("the bad one", peerPSN+2, wire.NAKRemoteAccess)
	s.WantState("over", ib.QPErr)
	s.Recv(bad)
	s.WantNak("lost: again", peerPSN+2, wire.NAKRemoteAccess)
	s.Recv(read)
	s.WantPacket("lost: again", wire.RCRDMAReadResponseFirst, peerPSN)
	s.WantPacket("lost: again", wire.RCRDMAReadResponseLast, peerPSN+1)
}

// The key of a READ goes while its responses are on their way.
func TestKeyGoneDuringRead(t *testing.T) {
	s := script.New(t, newRC, func(s *script.Setup) { s.Segments = 1 })
	s.Together(func() {
		s.Recv(s.At(script.Request(wire.RCRDMAReadRequest, peerPSN, nil), 0, 3000))
		if err := s.Mem.Deregister(s.MR); err != nil {
			t.Fatal(err)
		}
	})
	s.WantNak("at the first packet that cannot be", peerPSN, wire.NAKRemoteAccess)
	s.WantEvent("access", ib.EventQPAccessErr)
}

// A copy of a READ that the network kept until the key was gone gets a NAK, in case its sender
// waits. The queue pair lives. (Simulation, seed 118.)
func TestGhostReadAfterKeyGone(t *testing.T) {
	s := receiver(t, 10)
	read := s.At(script.Request(wire.RCRDMAReadRequest, peerPSN, nil), 0, 100)
	s.Recv(read)
	s.WantPacket("answered", wire.RCRDMAReadResponseOnly, peerPSN)
	if err := s.Mem.Deregister(s.MR); err != nil {
		t.Fatal(err)
	}
	s.Recv(read)
	s.WantNak("for who still waits", peerPSN, wire.NAKRemoteAccess)
	established(s)
	p := script.Request(wire.RCRDMAWriteOnly, peerPSN+1, nil)
	s.Recv(p)
	s.WantAck("on it goes", peerPSN+1, 2)
}

// A WRITE whose key goes in the middle stops there, and says so.
func TestKeyGoneDuringWrite(t *testing.T) {
	s := script.New(t, newRC)
	s.Recv(s.At(script.Request(wire.RCRDMAWriteFirst, peerPSN, script.Bytes(1024, 1)), 0, 2048))
	if err := s.Mem.Deregister(s.MR); err != nil {
		t.Fatal(err)
	}
	s.Recv(script.Request(wire.RCRDMAWriteLast, peerPSN+1, script.Bytes(1024, 2)))
	s.WantNak("refused", peerPSN+1, wire.NAKRemoteAccess)
	s.WantUntouched("not written any more", 1024, 1024)
}

// Packets of other queue pairs and peers change nothing but a counter.
func TestNotOurs(t *testing.T) {
	s := receiver(t, 100)
	s.RecvFrom(script.Request(wire.RCSendOnly, peerPSN, nil), script.Local)
	s.WantCount("stranger", roce.WrongSource, 1)
	p := script.Request(wire.RCSendOnly, peerPSN, nil)
	p.PKey = 0x1234
	s.Recv(p)
	s.WantCount("partition", roce.WrongPKey, 1)
	s.Recv(script.Request(wire.UCSendOnly, peerPSN, nil))
	s.WantCount("service", roce.UnexpectedPacket, 1)
	s.Recv(script.Request(wire.CNP, peerPSN, make([]byte, 16)))
	s.WantCount("congestion", roce.RcvdCNP, 1)
	s.Recv(script.Ack(psn, 1))
	s.WantCount("an answer to nothing", roce.StaleAck, 1)
	s.WantIdle("nothing happened")
	s.WantUntouched("nothing placed", 0, 100)
}
