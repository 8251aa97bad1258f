// SPDX-License-Identifier: BSD-2-Clause

package rc_test

import (
	"slices"
	"testing"

	"verbena/ib"
	"verbena/internal/testkit/script"
	wire "verbena/internal/wire/roce"
)

// inRing has packets go by memory; the path MTU is 1024.
func inRing(s *script.Setup) { s.Ring = 33 << 10 }

func long(op wire.Opcode, psn ib.PSN, n int, standsFor uint32) wire.Packet {
	p := script.Request(op, psn, script.Bytes(n, byte(psn&0xff)))
	p.ICRC = standsFor - 1
	return p
}

// The payload of many packets of the path MTU goes in a few long ones, which take as many PSNs.
func TestLongPacketsSent(t *testing.T) {
	s := script.New(t, newRC, inRing)
	copy(s.Memory, script.Bytes(70000, 1))
	s.Post(script.Write(70000), script.Write(1024))
	for i, want := range []struct {
		op       wire.Opcode
		psn      ib.PSN
		n, stand int
	}{
		{wire.RCRDMAWriteFirst, psn, 32 << 10, 32}, {wire.RCRDMAWriteMiddle, psn + 32, 32 << 10, 32},
		{wire.RCRDMAWriteLast, psn + 64, 70000 - 64<<10, 5}, {wire.RCRDMAWriteOnly, psn + 69, 1024, 1},
	} {
		p := s.WantPacket("as long as a burst", want.op, want.psn)
		if len(p.Payload) != want.n || p.ICRC != uint32(want.stand-1) {
			t.Errorf("packet %d: %d bytes, stands for 1+%d", i, len(p.Payload), p.ICRC)
		}
	}
	s.Recv(script.Nak(psn+40, wire.NAKPSNSequence)) // from within: the peer heard us by UDP before
	p := s.WantPacket("again from there", wire.RCRDMAWriteLast, psn+40)
	if string(p.Payload) != string(s.Memory[40<<10:][:len(p.Payload)]) {
		t.Error("not the bytes from there")
	}
}

// A long packet never takes more than the window leaves.
func TestLongPacketsKeepTheWindow(t *testing.T) {
	s := script.New(t, newRC, inRing)
	s.Post(script.Write(1 << 20))
	sent := 0
	for _, p := range s.Packets() {
		sent += 1 + int(p.ICRC)
	}
	if most := 128 << 10 / 1024; sent > most || sent < most/2 {
		t.Errorf("%d packets of 1024 bytes outstanding, the window begins with 128 KiB", sent)
	}
}

// Long packets are received in all their sizes, also a second time.
func TestLongPacketsReceived(t *testing.T) {
	s := script.New(t, newRC, inRing)
	s.PostRecv(0, 8192)
	first, last := long(wire.RCSendFirst, peerPSN, 4096, 4), long(wire.RCSendLast, peerPSN+4, 1500, 2)
	last.AckReq = true
	s.Recv(first)
	s.Recv(first)
	s.WantAck("a duplicate is acknowledged to its end", peerPSN+3, 0)
	s.Recv(last)
	s.WantMemory("placed", 0, slices.Concat(first.Payload, last.Payload))
	if wc := s.WantRecvWC("received", 1001, ib.WCSuccess); wc.ByteLen != 5596 {
		t.Error(wc.ByteLen)
	}
	s.WantAck("to its end", peerPSN+5, 1)
}

// A READ is answered, and its response taken, in long packets.
func TestLongPacketsOfReads(t *testing.T) {
	s := script.New(t, newWideRC, inRing)
	s.Post(script.Read(5000))
	s.WantPacket("asked", wire.RCRDMAReadRequest, psn)
	first, last := script.Response(wire.RCRDMAReadResponseFirst, psn, script.Bytes(4096, 1)), script.Response(wire.RCRDMAReadResponseLast, psn+4, script.Bytes(904, 2))
	first.ICRC = 3
	s.Recv(first)
	s.Recv(last)
	s.WantWC("read", 1, ib.WCSuccess)
	s.WantMemory("placed", 0, append(script.Bytes(4096, 1), script.Bytes(904, 2)...))

	copy(s.Memory, script.Bytes(40000, 3))
	r := script.Request(wire.RCRDMAReadRequest, peerPSN, nil)
	r.RETH = wire.RETH{VA: script.Base, RKey: s.MR.RKey(), DMALen: 40000}
	s.Recv(r)
	if p := s.WantPacket("answered", wire.RCRDMAReadResponseFirst, peerPSN); len(p.Payload) != 32<<10 || p.ICRC != 31 {
		t.Errorf("%d bytes, 1+%d", len(p.Payload), p.ICRC)
	}
	if p := s.WantPacket("answered", wire.RCRDMAReadResponseLast, peerPSN+32); len(p.Payload) != 40000-32<<10 || p.ICRC != 7 {
		t.Errorf("%d bytes, 1+%d", len(p.Payload), p.ICRC)
	}
}

// A packet that claims to stand for another number of packets than its length makes is refused: the
// two ends would count differently from there on.
func TestLongPacketsThatLie(t *testing.T) {
	for name, p := range map[string]wire.Packet{
		"too few":          long(wire.RCSendOnly, peerPSN, 4096, 3),
		"too many":         long(wire.RCSendOnly, peerPSN, 4096, 5),
		"far too many":     long(wire.RCSendOnly, peerPSN, 4096, 0),
		"a larger MTU":     long(wire.RCSendOnly, peerPSN, 4096, 1),
		"a smaller MTU":    long(wire.RCSendOnly, peerPSN, 1024, 2),
		"part of a packet": long(wire.RCSendFirst, peerPSN, 1500, 2),
	} {
		t.Run(name, func(t *testing.T) {
			s := script.New(t, newRC, inRing)
			s.PostRecv(0, 8192)
			s.Recv(p)
			s.WantNak("refused", peerPSN, wire.NAKInvalidRequest)
			s.WantState("over", ib.QPErr)
		})
	}
	t.Run("response", func(t *testing.T) {
		s := script.New(t, newRC, inRing)
		s.Post(script.Read(2048))
		s.WantPacket("asked", wire.RCRDMAReadRequest, psn)
		p := script.Response(wire.RCRDMAReadResponseOnly, psn, script.Bytes(2048, 1))
		p.ICRC = 2
		s.Recv(p)
		s.WantWC("refused", 1, ib.WCBadRespErr)
	})
	t.Run("by UDP", func(t *testing.T) {
		s := script.New(t, newRC)
		s.PostRecv(0, 8192)
		s.Recv(long(wire.RCSendOnly, peerPSN, 4096, 4))
		s.WantNak("refused", peerPSN, wire.NAKInvalidRequest)
	})
}

// The acknowledgement of a duplicate names no PSN past a READ that came after it. Half of all PSNs
// later the READ seems to have come after it, and has not.
func TestDuplicateLongAfterRead(t *testing.T) {
	if testing.Short() {
		t.Skip("2 GiB of messages: only without -short")
	}
	s := script.New(t, newRC, inRing, attr(func(a *ib.QPAttr) { a.PathMTU = ib.MTU256 }))
	s.Recv(s.At(script.Request(wire.RCRDMAReadRequest, peerPSN, nil), 0, 200))
	const stands = 128
	p := s.At(long(wire.RCRDMAWriteOnly, peerPSN+1, stands*256, stands), 0, stands*256)
	for range 1<<23/stands + 2 {
		s.Recv(p)
		s.Packets()
		p.PSN = p.PSN.Add(stands)
	}
	p.PSN = p.PSN.Add(1<<24 - stands) // the newest again
	p.AckReq = true
	s.Recv(p)
	s.WantAck("the newest", p.PSN.Add(stands-1), 2+1<<23/stands+1)
}
