// SPDX-License-Identifier: BSD-2-Clause

package rc_test

import (
	"slices"
	"testing"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/roce"
	"verbena/internal/roce/rc"
	"verbena/internal/rtt"
	"verbena/internal/testkit/script"
	wire "verbena/internal/wire/roce"
)

func newRC(c roce.Config) roce.Machine { return rc.New(c) }

// wideRC is a queue pair whose first window is wider than most tests need.
type wideRC struct{ *rc.QP }

func newWideRC(c roce.Config) roce.Machine { return wideRC{rc.New(c)} }

func (q wideRC) Modify(now monotime.Time, a *ib.QPAttr, m ib.QPAttrMask, p *roce.Path) {
	q.QP.Modify(now, a, m, p)
	q.Widen()
}

func attr(f func(*ib.QPAttr)) func(*script.Setup) {
	return func(s *script.Setup) { f(&s.Attr) }
}

const (
	psn     = script.PSN
	peerPSN = script.PeerPSN
)

// A WRITE of any length goes out in packets of the path MTU: one with RETH,
// the rest without. (rxe once failed above one MTU: d52418502e28.)
func TestWriteMultiMTU(t *testing.T) {
	for _, n := range []int{0, 1, 3, 1023, 1024, 1025, 2048, 2049, 4096, 70000} {
		s := script.New(t, newRC)
		copy(s.Memory, script.Bytes(n, 1))
		s.Post(script.Write(n))
		at, got := psn, 0
		for got < n || at == psn {
			p := s.Packets()
			if len(p) == 0 {
				s.Recv(script.Ack(at.Prev(), 0)) // the window was full
				continue
			}
			for _, p := range p {
				chunk := min(n-got, 1024)
				first, last := got == 0, got+chunk == n
				want := roce.DataOpcode(wire.RCSendFirst, ib.WRRDMAWrite, first, last)
				if p.Opcode != want || p.PSN != at || len(p.Payload) != chunk || p.AckReq != last && last {
					t.Fatalf("%d bytes: at %d: %v, want %v", n, got, script.Format(&p), want)
				}
				if first && (p.RETH != wire.RETH{VA: script.RemoteAddr, RKey: script.RemoteKey, DMALen: uint32(n)}) {
					t.Fatalf("RETH %+v", p.RETH)
				}
				if string(p.Payload) != string(s.Memory[got:got+chunk]) {
					t.Fatalf("%d bytes: wrong payload at %d", n, got)
				}
				got, at = got+chunk, at.Add(1)
			}
		}
		s.WantNoWC("not acknowledged yet")
		s.Recv(script.Ack(at.Prev(), 1))
		s.WantWC("acknowledged", 1, ib.WCSuccess)
		s.WantIdle("done")
	}
}

// The same exchange when the network loses, delays or repeats something, and
// when the peer tells of it.
func TestWriteUnderFaults(t *testing.T) {
	story := map[string]func(s *script.Script){
		"nothing wrong": func(s *script.Script) {
			s.Recv(script.Ack(psn+3, 1))
		},
		"acknowledgement delayed and in pieces": func(s *script.Script) {
			s.Advance(15 * monotime.Millisecond)
			s.Recv(script.Ack(psn, 0))
			s.Recv(script.Ack(psn+2, 0))
			s.Recv(script.Ack(psn+3, 1))
		},
		"acknowledgement repeated": func(s *script.Script) {
			s.Recv(script.Ack(psn+1, 0))
			s.Recv(script.Ack(psn+1, 0))
			s.Recv(script.Ack(psn+3, 1))
			s.Recv(script.Ack(psn+3, 1))
			s.Recv(script.Ack(psn, 0))
		},
		"third packet lost, peer says so": func(s *script.Script) {
			s.Recv(script.Nak(psn+2, wire.NAKPSNSequence))
			s.WantPacket("from the one missed on", wire.RCRDMAWriteMiddle, psn+2)
			s.WantPacket("and what follows", wire.RCRDMAWriteLast, psn+3)
			s.Recv(script.Ack(psn+3, 1))
		},
		"NAK repeated by the network": func(s *script.Script) {
			s.Recv(script.Nak(psn+2, wire.NAKPSNSequence))
			s.Recv(script.Nak(psn+2, wire.NAKPSNSequence))
			s.WantDrain("once, not twice", 2)
			s.Recv(script.Ack(psn+3, 1))
		},
		"acknowledged while going back": func(s *script.Script) {
			s.Together(func() {
				s.Recv(script.Nak(psn+1, wire.NAKPSNSequence))
				s.Recv(script.Ack(psn+2, 0))
			})
			s.WantPacket("only what is open", wire.RCRDMAWriteLast, psn+3)
			s.Recv(script.Ack(psn+3, 1))
		},
		"everything lost": func(s *script.Script) {
			s.Advance(rtt.First)
			s.WantPacket("the newest alone: it may be that the peer is only late", wire.RCRDMAWriteLast, psn+3)
			s.WantDrain("no more than that", 0)
			s.Advance(rtt.First)
			if p := s.WantPacket("the oldest, which a foreign peer may wait for", wire.RCRDMAWriteFirst, psn); p.RETH.DMALen != 4096 {
				t.Errorf("RETH %+v", p.RETH)
			}
			s.WantPacket("and the newest", wire.RCRDMAWriteLast, psn+3)
			s.WantDrain("no more than that", 0)
			s.Recv(script.Ack(psn, 0))
			s.Recv(script.Nak(psn+1, wire.NAKPSNSequence))
			s.WantPacket("then what follows", wire.RCRDMAWriteMiddle, psn+1)
			s.Recv(script.Ack(psn+3, 1))
		},
		"last packet lost": func(s *script.Script) {
			s.Recv(script.Ack(psn+1, 0))
			s.Advance(rtt.First)
			s.WantPacket("the probe", wire.RCRDMAWriteLast, psn+3)
			s.Recv(script.Nak(psn+2, wire.NAKPSNSequence))
			s.WantPacket("what the peer misses", wire.RCRDMAWriteMiddle, psn+2)
			s.WantPacket("and what follows", wire.RCRDMAWriteLast, psn+3)
			s.Recv(script.Ack(psn+3, 1))
		},
		"acknowledgement of what was never sent": func(s *script.Script) {
			s.Recv(script.Ack(psn+4, 1))
			s.Recv(script.Ack(psn+1000, 1))
			s.WantNoWC("a ghost completes nothing")
			s.WantCount("but is counted", roce.StaleAck, 2)
			s.Recv(script.Ack(psn+3, 1))
		},
		"from a stranger": func(s *script.Script) {
			s.RecvFrom(script.Ack(psn+3, 1), script.Local)
			s.WantNoWC("not from our peer")
			s.WantCount("counted", roce.WrongSource, 1)
			s.Recv(script.Ack(psn+3, 1))
		},
	}
	for name, f := range story {
		t.Run(name, func(t *testing.T) {
			s := script.New(t, newWideRC)
			s.Post(script.Write(4096))
			s.WantDrain("four packets", 4)
			f(s)
			s.WantWC("the WRITE", 1, ib.WCSuccess)
			s.Packets()
			s.WantIdle("done")
		})
	}
}

// PSNs wrap from 2^24-1 to 0 in the middle of a message, on both sides.
func TestPSNWraps(t *testing.T) {
	const last24 = 1<<24 - 1
	s := script.New(t, newRC, attr(func(a *ib.QPAttr) { a.SQPSN, a.RQPSN = last24-1, last24 }))
	s.Post(script.Write(4096))
	for i, want := range []ib.PSN{last24 - 1, last24, 0, 1} {
		if p := s.WantPacket("packet", []wire.Opcode{wire.RCRDMAWriteFirst, wire.RCRDMAWriteMiddle, wire.RCRDMAWriteMiddle, wire.RCRDMAWriteLast}[i], want); p.PSN != want {
			t.Fatal(p.PSN)
		}
	}
	s.Recv(script.Nak(0, wire.NAKPSNSequence))
	s.WantPacket("again after the wrap", wire.RCRDMAWriteMiddle, 0)
	s.WantPacket("again after the wrap", wire.RCRDMAWriteLast, 1)
	s.Recv(script.Ack(1, 1))
	s.WantWC("done", 1, ib.WCSuccess)

	s.PostRecv(0, 4096)
	s.Recv(script.Request(wire.RCSendFirst, last24, script.Bytes(1024, 3)))
	s.Recv(script.Request(wire.RCSendMiddle, 0, script.Bytes(1024, 4)))
	s.Recv(script.Request(wire.RCSendFirst, last24, script.Bytes(1024, 3)))
	s.WantAck("a duplicate from before the wrap", 0, 0)
	s.Recv(script.Request(wire.RCSendLast, 1, script.Bytes(10, 5)))
	s.WantAck("the message", 1, 1)
	s.WantRecvWC("received", 1001, ib.WCSuccess)
	s.WantMemory("first packet", 0, script.Bytes(1024, 3))
}

// AckReq stands on the last packet of the posted work, not on each message, and on every so many
// packets of a stream.
func TestAckReq(t *testing.T) {
	s := script.New(t, newRC)
	s.Machine.(*rc.QP).Settle()
	s.Post(script.Send(10), script.Send(10), script.Send(10))
	p := s.WantDrain("three SENDs", 3)
	if p[0].AckReq || p[1].AckReq || !p[2].AckReq {
		t.Fatalf("AckReq %v %v %v", p[0].AckReq, p[1].AckReq, p[2].AckReq)
	}
	s.Recv(script.Ack(psn+2, 3))
	for i := range uint64(3) {
		s.WantWC("one acknowledgement, three completions", i+1, ib.WCSuccess)
	}
	next := ib.PSN(psn + 3)
	for n, c := range []struct {
		packets int
		asks    []int // that have AckReq
	}{
		{64, []int{63}}, // in the middle it would wake a requester that sleeps
		{65, []int{31, 64}},
		{96, []int{31, 95}},
		{128, []int{31, 63, 127}},
	} {
		s.Post(script.Write(c.packets << 10))
		var asks []int
		for i, p := range s.WantDrain("packets", c.packets) {
			if p.AckReq {
				asks = append(asks, i)
			}
		}
		if !slices.Equal(asks, c.asks) {
			t.Errorf("of %d packets %v have AckReq, want %v", c.packets, asks, c.asks)
		}
		next = next.Add(uint32(c.packets))
		s.Recv(script.Ack(next.Prev(), ib.MSN(4+n)))
		s.WantWC("done", uint64(4+n), ib.WCSuccess)
	}
	s.Post(script.Write(64<<10), script.Write(64<<10))
	for i, p := range s.WantDrain("a stream", 128)[:64] {
		if want := i%32 == 31; p.AckReq != want {
			t.Errorf("packet %d of a stream: AckReq %v", i, p.AckReq)
		}
	}
	s.Recv(script.Ack(next.Add(127), 9))
	s.WantWC("done", 8, ib.WCSuccess)
	s.WantWC("done", 9, ib.WCSuccess)
	s.WantIdle("done")
}

// A short message that fits the first window is acknowledged once. Of a longer one each packet of
// that window is: they show the rate of the path.
func TestAckReqOfFirstWindow(t *testing.T) {
	for _, c := range []struct {
		mtu   ib.MTU
		bytes int
		sent  int
		asks  int
	}{
		{ib.MTU4096, 10_000, 3, 1},
		{ib.MTU1024, 8 << 10, 8, 1},
		{ib.MTU1024, 14 << 10, 14, 1},
		{ib.MTU4096, 64 << 10, 3, 3},
		{ib.MTU1024, 64 << 10, 14, 14},
	} {
		s := script.New(t, newRC, attr(func(a *ib.QPAttr) { a.PathMTU = c.mtu }))
		s.Post(script.Send(c.bytes))
		asks := 0
		p := s.WantDrain("the first window", c.sent)
		for i := range p {
			if p[i].AckReq {
				asks++
			}
		}
		if asks != c.asks || !p[c.sent-1].AckReq {
			t.Errorf("%d bytes in %v: %d of %d packets have AckReq, want %d and the last",
				c.bytes, c.mtu, asks, c.sent, c.asks)
		}
	}
}

// Completions come in the order posted, only for the signaled, and an
// acknowledgement completes nothing beyond it.
func TestCompletionOrder(t *testing.T) {
	s := script.New(t, newRC)
	s.Post(script.Send(1).Unsignaled(), script.Write(3000), script.Send(1).Unsignaled(), script.SendImm(2000, 7))
	s.WantDrain("1+3+1+2 packets", 7)
	s.Recv(script.Ack(psn+2, 1))
	s.WantNoWC("the WRITE is not complete")
	s.Recv(script.Ack(psn+4, 3))
	s.WantWC("the WRITE", 2, ib.WCSuccess)
	s.WantNoWC("the SEND is not signaled")
	s.Recv(script.Ack(psn+6, 4))
	wc := s.WantWC("the last", 4, ib.WCSuccess)
	if wc.Opcode != ib.WCSend {
		t.Fatal(wc.Opcode)
	}
	s.WantIdle("done")
}

// A scatter/gather list is sent as one message, of elements of any size, and inline data as it was
// when posted.
func TestGather(t *testing.T) {
	s := script.New(t, newRC)
	copy(s.Memory, script.Bytes(8192, 9))
	s.Post(script.Send(1500).List(s.SGE(0, 1), s.SGE(100, 0), s.SGE(1000, 999), s.SGE(5000, 500)))
	want := string(s.Memory[0:1]) + string(s.Memory[1000:1999]) + string(s.Memory[5000:5500])
	p := s.WantDrain("two packets", 2)
	if got := string(p[0].Payload) + string(p[1].Payload); got != want {
		t.Fatal("wrong bytes")
	}
	s.Together(func() {
		s.Post(script.Send(64).Inline())
		clear(s.Memory[:64])
	})
	p = s.WantDrain("inline", 1)
	if string(p[0].Payload) != string(script.Bytes(64, 9)) {
		t.Fatal("inline data was not copied when posted")
	}
}
