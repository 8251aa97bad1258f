// SPDX-License-Identifier: BSD-2-Clause

package rc_test

import (
	"encoding/binary"
	"slices"
	"testing"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/roce"
	"verbena/internal/testkit/script"
	wire "verbena/internal/wire/roce"
)

func TestRead(t *testing.T) {
	for _, n := range []int{0, 1, 1024, 1025, 3000} {
		s := script.New(t, newRC)
		s.Post(script.Read(n))
		p := s.WantPacket("request", wire.RCRDMAReadRequest, psn)
		if p.RETH.DMALen != uint32(n) || !p.AckReq {
			t.Fatalf("%v", script.Format(&p))
		}
		data := script.Bytes(n, 8)
		packets := max(1, (n+1023)/1024)
		for i := range packets {
			op := wire.RCRDMAReadResponseMiddle
			switch {
			case packets == 1:
				op = wire.RCRDMAReadResponseOnly
			case i == 0:
				op = wire.RCRDMAReadResponseFirst
			case i == packets-1:
				op = wire.RCRDMAReadResponseLast
			}
			s.WantNoWC("not all is here")
			s.Recv(script.Response(op, psn.Add(uint32(i)), data[i*1024:min(n, i*1024+1024)]))
		}
		wc := s.WantWC("all is here", 1, ib.WCSuccess)
		if wc.Opcode != ib.WCRDMARead || wc.ByteLen != uint32(n) {
			t.Fatalf("%+v", wc)
		}
		s.WantMemory("data", 0, data)
		s.WantUntouched("no more than the data", n, 100)
		s.Post(script.Send(1))
		s.WantPacket("after the responses' PSNs", wire.RCSendOnly, psn.Add(uint32(packets)))
	}
}

// A skipped response is an implied NAK: it is asked for again, and what comes after it is kept.
func TestImpliedNAK(t *testing.T) {
	s := script.New(t, newRC)
	s.Post(script.Read(4096))
	s.WantDrain("request", 1)
	s.Recv(script.Response(wire.RCRDMAReadResponseFirst, psn, script.Bytes(1024, 1)))
	s.Recv(script.Response(wire.RCRDMAReadResponseMiddle, psn+2, script.Bytes(1024, 3)))
	p := s.WantPacket("the one missing", wire.RCRDMAReadRequest, psn+1)
	if p.RETH.VA != script.RemoteAddr+1024 || p.RETH.DMALen != 1024 {
		t.Fatalf("%+v", p.RETH)
	}
	s.WantCount("told", roce.ImpliedNAK, 1)
	s.Recv(script.Response(wire.RCRDMAReadResponseLast, psn+3, script.Bytes(1024, 4)))
	s.WantQuiet("already asked for")
	s.WantNoWC("one is missing")
	s.Recv(script.Response(wire.RCRDMAReadResponseOnly, psn+1, script.Bytes(1024, 2)))
	s.WantWC("complete", 1, ib.WCSuccess)
	for i := range 4 {
		s.WantMemory("piece", 1024*i, script.Bytes(1024, byte(i+1)))
	}
	s.WantIdle("done")
}

// An acknowledgement beyond a READ whose response did not come is one too.
func TestImpliedNAKByAck(t *testing.T) {
	s := script.New(t, newRC)
	s.Post(script.Send(1), script.Read(2048), script.Send(1))
	s.WantDrain("sent", 3)
	s.Recv(script.Ack(psn+3, 3))
	s.WantWC("before the READ all is acknowledged", 1, ib.WCSuccess)
	s.WantNoWC("the READ has no data")
	s.WantPacket("asked again", wire.RCRDMAReadRequest, psn+1)
	s.WantQuiet("the SEND has arrived")
	s.Recv(script.Response(wire.RCRDMAReadResponseFirst, psn+1, script.Bytes(1024, 1)))
	s.Recv(script.Response(wire.RCRDMAReadResponseLast, psn+2, script.Bytes(1024, 2)))
	s.WantWC("READ", 2, ib.WCSuccess)
	s.WantWC("SEND", 3, ib.WCSuccess)
	s.WantIdle("done")
}

// A response acknowledges the SENDs and WRITEs before it.
func TestResponseAcknowledges(t *testing.T) {
	s := script.New(t, newRC)
	s.Post(script.Send(1), script.Write(2000), script.FetchAdd(1))
	s.WantDrain("sent", 4)
	s.Recv(script.AtomicAck(psn+3, 77))
	for i := range uint64(3) {
		s.WantWC("all", i+1, ib.WCSuccess)
	}
	s.WantIdle("done")
}

func TestAtomicRequester(t *testing.T) {
	s := script.New(t, newRC)
	s.Post(script.FetchAdd(5), script.CompareSwap(10, 20))
	p := s.WantPacket("fetch-add", wire.RCFetchAdd, psn)
	if p.AtomicETH.SwapAdd != 5 || p.AtomicETH.VA != script.RemoteAddr || p.AtomicETH.RKey != script.RemoteKey {
		t.Fatalf("%+v", p.AtomicETH)
	}
	p = s.WantPacket("compare-swap", wire.RCCompareSwap, psn+1)
	if p.AtomicETH.Compare != 10 || p.AtomicETH.SwapAdd != 20 {
		t.Fatalf("%+v", p.AtomicETH)
	}
	s.Recv(script.AtomicAck(psn, 42))
	if wc := s.WantWC("fetch-add", 1, ib.WCSuccess); wc.Opcode != ib.WCFetchAdd || wc.ByteLen != 8 {
		t.Fatalf("%+v", wc)
	}
	if v := binary.NativeEndian.Uint64(s.Memory); v != 42 {
		t.Fatalf("original value %d", v)
	}
	s.Advance(25 * monotime.Millisecond)
	p = s.WantPacket("lost: the same again", wire.RCCompareSwap, psn+1)
	if p.AtomicETH.Compare != 10 {
		t.Fatal("changed")
	}
	s.Recv(script.AtomicAck(psn+1, 10))
	s.WantWC("compare-swap", 2, ib.WCSuccess)
}

// FLUSH and ATOMIC WRITE are answered by an empty READ response.
func TestPlacementRequester(t *testing.T) {
	s := script.New(t, newRC)
	s.Post(script.AtomicWrite(), script.Flush(100))
	p := s.WantPacket("atomic write", wire.RCAtomicWrite, psn)
	if len(p.Payload) != 8 || p.RETH.DMALen != 8 {
		t.Fatal(script.Format(&p))
	}
	p = s.WantPacket("flush", wire.RCFlush, psn+1)
	if p.FETH.PLT != ib.FlushGlobal || p.RETH.DMALen != 100 {
		t.Fatalf("%+v", p.FETH)
	}
	s.Recv(script.Response(wire.RCRDMAReadResponseOnly, psn, nil))
	s.WantWC("atomic write", 1, ib.WCSuccess)
	s.Recv(script.Response(wire.RCRDMAReadResponseOnly, psn+1, nil))
	s.WantWC("flush", 2, ib.WCSuccess)
	s.WantIdle("done")
}

// No more READs and atomics are outstanding than the responder agreed to.
func TestInitiatorDepth(t *testing.T) {
	s := script.New(t, newRC, attr(func(a *ib.QPAttr) { a.MaxRdAtomic = 2 }))
	s.Post(script.Read(10), script.FetchAdd(1), script.Read(10), script.Send(1))
	s.WantDrain("two", 2)
	s.Recv(script.Response(wire.RCRDMAReadResponseOnly, psn, script.Bytes(10, 1)))
	s.WantPacket("room for one more", wire.RCRDMAReadRequest, psn+2)
	s.WantPacket("a SEND needs no room", wire.RCSendOnly, psn+3)
	s = script.New(t, newRC, attr(func(a *ib.QPAttr) { a.MaxRdAtomic = 0 }))
	s.Post(script.Read(10))
	if wc := s.WantWC("none agreed", 1, ib.WCLocQPOpErr); wc.VendorErr != ib.VendorDepth {
		t.Fatal(wc.VendorErr)
	}
}

// A long READ is requested in pieces that do not flood the receiver. A repeated piece ends where it
// ended before, even if the window has changed: a responder knows no request that is longer.
func TestLongRead(t *testing.T) {
	const size = 200 << 10
	s := script.New(t, newRC, attr(func(a *ib.QPAttr) { a.MaxRdAtomic = 1 }))
	s.Post(script.Read(size))
	for at, pieces := uint32(0), 0; at < size; pieces++ {
		p := s.WantPacket("next piece", wire.RCRDMAReadRequest, psn.Add(at/1024))
		if p.RETH.DMALen > 128<<10 || p.RETH.DMALen == size {
			t.Fatalf("a piece of %d bytes", p.RETH.DMALen)
		}
		n := p.RETH.DMALen / 1024
		if pieces == 0 { // all from the third response on are lost
			respond(s, p.PSN, 0, 2, n)
			s.Advance(25 * monotime.Millisecond)
			q := s.WantPacket("what the timer asks for", wire.RCRDMAReadRequest, p.PSN.Add(n-1))
			if q.RETH.DMALen != 1024 {
				t.Fatalf("%+v asked again as %+v", p.RETH, q.RETH)
			}
			q = s.WantPacket("the rest of it", wire.RCRDMAReadRequest, p.PSN.Add(2))
			if q.RETH.VA != p.RETH.VA+2048 || q.RETH.DMALen != p.RETH.DMALen-2048 {
				t.Fatalf("%+v asked again as %+v", p.RETH, q.RETH)
			}
			respond(s, q.PSN, 0, n-2, n-2)
		} else {
			respond(s, p.PSN, 0, n, n)
		}
		at += p.RETH.DMALen
	}
	s.WantWC("all of it", 1, ib.WCSuccess)
}

// respond gives packets from to to of the n that answer a READ request.
func respond(s *script.Script, request ib.PSN, from, to, n uint32) {
	for i := from; i < to; i++ {
		op := wire.RCRDMAReadResponseMiddle
		switch {
		case n == 1:
			op = wire.RCRDMAReadResponseOnly
		case i == 0:
			op = wire.RCRDMAReadResponseFirst
		case i == n-1:
			op = wire.RCRDMAReadResponseLast
		}
		s.Recv(script.Response(op, request.Add(i), script.Bytes(1024, byte(i))))
	}
}

// Responses that do not fit the request end it with BAD_RESP_ERR.
func TestBadResponses(t *testing.T) {
	for name, c := range map[string]struct {
		wr script.WR
		in []byte
		op wire.Opcode
	}{
		"too short":            {script.Read(2048), script.Bytes(1023, 1), wire.RCRDMAReadResponseFirst},
		"too long":             {script.Read(10), script.Bytes(11, 1), wire.RCRDMAReadResponseOnly},
		"data for an atomic":   {script.FetchAdd(1), script.Bytes(8, 1), wire.RCRDMAReadResponseOnly},
		"atomic for a READ":    {script.Read(8), nil, wire.RCAtomicAcknowledge},
		"data for a FLUSH":     {script.Flush(8), script.Bytes(8, 1), wire.RCRDMAReadResponseOnly},
		"only of more packets": {script.Read(2048), script.Bytes(1024, 1), wire.RCRDMAReadResponseOnly},
		"first of one packet":  {script.Read(1024), script.Bytes(1024, 1), wire.RCRDMAReadResponseFirst},
	} {
		t.Run(name, func(t *testing.T) {
			s := script.New(t, newRC)
			s.Post(c.wr)
			s.Recv(script.Response(c.op, psn, c.in))
			s.WantWC("refused", 1, ib.WCBadRespErr)
			s.WantState("over", ib.QPErr)
			s.WantUntouched("nothing placed", 0, 4096)
		})
	}
}

// A fence holds the next work request until READs and atomics are answered.
func TestFence(t *testing.T) {
	s := script.New(t, newRC)
	s.Post(script.Read(10), script.Send(1).Fence(), script.Send(1))
	s.WantPacket("READ", wire.RCRDMAReadRequest, psn)
	s.WantQuiet("the fence holds")
	s.Recv(script.Response(wire.RCRDMAReadResponseOnly, psn, script.Bytes(10, 1)))
	s.WantPacket("then goes", wire.RCSendOnly, psn+1)
	s.WantPacket("with the next", wire.RCSendOnly, psn+2)
}

// End-to-end credits: no SEND goes beyond the responder's receives, save one that asks for news.
func TestCredits(t *testing.T) {
	s := script.New(t, newRC)
	s.Post(script.Send(1))
	s.WantDrain("first", 1)
	s.Recv(script.AckCredits(psn, 1, 2))
	s.WantWC("first", 1, ib.WCSuccess)
	s.Post(script.Send(1), script.Send(1), script.Write(1), script.Send(1), script.Send(1))
	p := s.WantDrain("two and a WRITE, which needs none", 3)
	if !p[2].AckReq && !p[1].AckReq {
		t.Fatal("no acknowledgement asked for: credits would never come")
	}
	s.Recv(script.AckCredits(psn+3, 4, 0))
	s.WantDrain("one beyond the limit", 1)
	s.Recv(script.AckCredits(psn+4, 5, 1))
	s.WantDrain("the rest", 1)
}

// Atomic with a wrong lkey (CVE-2021-47076: rxe panicked): the answer cannot
// be placed, the work request ends with a local protection error.
func TestAtomicWrongLKey(t *testing.T) {
	for name, wr := range map[string]script.WR{"atomic": script.FetchAdd(1), "READ": script.Read(8)} {
		t.Run(name, func(t *testing.T) {
			s := script.New(t, newRC)
			bad := s.SGE(0, 8)
			bad.LKey ^= 0x5555
			s.Post(wr.List(bad))
			if wr.Opcode == ib.WRRDMARead {
				s.Recv(script.Response(wire.RCRDMAReadResponseOnly, psn, script.Bytes(8, 1)))
			} else {
				s.Recv(script.AtomicAck(psn, 1))
			}
			s.WantWC("no such key", 1, ib.WCLocProtErr)
			s.WantState("over", ib.QPErr)
			s.WantUntouched("nothing placed", 0, 8)
		})
	}
}

// Going back does not forget earlier requests: an acknowledgement beyond an atomic, in the wait
// after an RNR NAK, does not pass for its answer, and the answer counts. (Simulation, seed 21201:
// it completed without the value.)
func TestAtomicAnsweredWhileGoingBack(t *testing.T) {
	s := script.New(t, newRC)
	s.Post(script.Send(1), script.FetchAdd(1), script.Write(1))
	s.Recv(script.RNR(psn, 14))
	s.Recv(script.Ack(psn, 1)) // an old copy of the SEND was received after all
	s.WantWC("SEND", 1, ib.WCSuccess)
	s.Recv(script.Ack(psn+2, 3))
	s.WantNoWC("the value is missing")
	s.Recv(script.AtomicAck(psn+1, 42))
	s.WantWC("atomic", 2, ib.WCSuccess)
	if v := binary.NativeEndian.Uint64(s.Memory); v != 42 {
		t.Fatalf("original value %d", v)
	}
	s.Recv(script.Ack(psn+2, 3))
	s.WantWC("WRITE", 3, ib.WCSuccess)
}

// A word has 8 bytes here as there. The peer hears nothing of one that has not.
func TestBadLength(t *testing.T) {
	for name, w := range map[string]script.WR{
		"CMP_AND_SWP": script.CompareSwap(1, 2), "FETCH_AND_ADD": script.FetchAdd(1), "ATOMIC_WRITE": script.AtomicWrite(),
	} {
		for _, n := range []int{0, 4, 7, 9, 16} {
			s := script.New(t, newRC)
			w = w.List(s.SGE(0, n))
			w.Length = uint32(n)
			s.Post(w, script.Send(1))
			if wc := s.WantWC(name, 1, ib.WCLocLenErr); wc.VendorErr != ib.VendorLength {
				t.Errorf("%s of %d bytes: %v", name, n, wc.VendorErr)
			}
			s.WantWC("behind it", 2, ib.WCWRFlushErr)
			s.WantQuiet(name)
		}
	}
}

// A short READ is one request, though the first window is small. Pieces of a long one are a quarter
// of that window, and the end of it is one.
func TestShortReadIsOneRequest(t *testing.T) {
	for _, mtu := range []ib.MTU{ib.MTU1024, ib.MTU4096} {
		for _, c := range []struct {
			bytes int
			want  []uint32
		}{
			{10_000, []uint32{10_000}},
			{16 << 10, []uint32{16 << 10}},
			{20 << 10, []uint32{4 << 10, 16 << 10}},
		} {
			s := script.New(t, newRC, attr(func(a *ib.QPAttr) { a.PathMTU = mtu }))
			s.Post(script.Read(c.bytes))
			var got []uint32
			for _, p := range s.Packets() {
				got = append(got, p.RETH.DMALen)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%v: requests of %v bytes, want %v", mtu, got, c.want)
			}
		}
	}
}
