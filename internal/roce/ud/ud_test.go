// SPDX-License-Identifier: BSD-2-Clause

package ud_test

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/roce"
	"verbena/internal/roce/ud"
	"verbena/internal/testkit/script"
	wire "verbena/internal/wire/roce"
)

// v6 is the address of GID index 1.
var v6 = netip.MustParseAddr("2001:db8::1")

func newUD(c roce.Config) roce.Machine {
	return ud.New(ud.Config{Config: c, MTU: 1024, Source: func(i uint8) netip.AddrPort {
		switch i {
		case 0:
			return netip.AddrPortFrom(script.Local, 0xc123)
		case 1:
			return netip.AddrPortFrom(v6, 0xc123)
		}
		return netip.AddrPort{}
	}})
}

const (
	psn  = script.PSN
	qkey = ib.QKey(0x1111) // of the script's queue pair
)

func datagram(n int, mark byte) wire.Packet {
	p := script.Request(wire.UDSendOnly, 1, script.Bytes(n, mark))
	p.AckReq = false
	p.DETH = wire.DETH{QKey: qkey, SrcQP: 0x99}
	return p
}

func TestSend(t *testing.T) {
	s := script.New(t, newUD)
	copy(s.Memory, script.Bytes(1024, 1))
	w := script.SendImm(1024, 5).Solicited()
	w.RemoteQPN, w.QKey = 0x77, 0x2222
	s.Post(w, script.Send(0), script.Send(3).Inline())
	p := s.WantPacket("first", wire.UDSendOnlyImm, psn)
	if p.DestQP != 0x77 || p.DETH.QKey != 0x2222 || p.DETH.SrcQP != script.QPN || p.ImmDt.Data != 5 || !p.Solicited || len(p.Payload) != 1024 {
		t.Fatalf("%+v", p)
	}
	s.WantPacket("second", wire.UDSendOnly, psn+1)
	s.WantPacket("third", wire.UDSendOnly, psn+2)
	for i := range uint64(3) {
		s.WantWC("done", i+1, ib.WCSuccess)
	}
	s.WantIdle("nothing is waited for")
}

// A Q_Key with the top bit set stands for the queue pair's own.
func TestPrivilegedQKey(t *testing.T) {
	s := script.New(t, newUD)
	w := script.Send(1)
	w.QKey = 0x80000000
	s.Post(w)
	if p := s.WantPacket("sent", wire.UDSendOnly, psn); p.DETH.QKey != qkey {
		t.Fatalf("Q_Key %#x", p.DETH.QKey)
	}
}

// Each work request names where it goes; also over IPv6, by another GID.
func TestDestinations(t *testing.T) {
	s := script.New(t, newUD)
	for i := range 30 {
		w := script.Send(1)
		w.Dst = netip.AddrFrom4([4]byte{198, 51, 100, byte(i % 12)})
		s.Post(w) // the script verifies each ICRC with its path's addresses
	}
	s.WantDrain("all sent", 30)
	w := script.Send(1)
	w.SGIDIndex, w.Dst = 1, netip.MustParseAddr("2001:db8::2")
	s.Post(w)
	s.WantDrain("IPv6", 1)
	w.Dst = netip.MustParseAddr("ff0e::1")
	s.Post(w)
	s.WantDrain("multicast", 1)
}

// A datagram that cannot be sent stops the send queue.
func TestSendErrors(t *testing.T) {
	for name, c := range map[string]struct {
		spoil  func(s *script.Script, w *script.WR)
		status ib.WCStatus
	}{
		"longer than the MTU": {func(s *script.Script, w *script.WR) { w.Length = 1025 }, ib.WCLocLenErr},
		"no such GID":         {func(s *script.Script, w *script.WR) { w.SGIDIndex = 9 }, ib.WCLocQPOpErr},
		"families differ":     {func(s *script.Script, w *script.WR) { w.SGIDIndex = 1 }, ib.WCLocQPOpErr},
		"no destination":      {func(s *script.Script, w *script.WR) { w.Dst = netip.Addr{} }, ib.WCLocQPOpErr}, // of an address handle of another domain
		"WRITE":               {func(s *script.Script, w *script.WR) { w.Opcode = ib.WRRDMAWrite }, ib.WCLocQPOpErr},
		"wrong key": {func(s *script.Script, w *script.WR) {
			g := s.SGE(0, 10)
			g.LKey++
			*w = w.List(g)
		}, ib.WCLocProtErr},
	} {
		t.Run(name, func(t *testing.T) {
			s := script.New(t, newUD)
			w := script.Send(10)
			c.spoil(s, &w)
			s.Post(w, script.Send(1))
			s.WantWC("refused", 1, c.status)
			s.WantWC("flushed", 2, ib.WCWRFlushErr)
			s.WantState("stopped", ib.QPSQE)
			s.PostRecv(0, 100)
			s.Recv(datagram(10, 1))
			s.WantRecvWC("receiving goes on", 1001, ib.WCSuccess)
			s.SetState(ib.QPRTS)
			s.Post(script.Send(1))
			s.WantPacket("on again", wire.UDSendOnly, psn)
		})
	}
}

// The first 40 bytes of a receive are the network header; for IPv4 the last
// 20 of them, with a right checksum, by which applications know it.
func TestReceiveIPv4(t *testing.T) {
	s := script.New(t, newUD)
	s.PostRecvList(s.SGE(0, 30), s.SGE(100, 200))
	p := datagram(50, 3)
	p.Opcode, p.ImmDt.Data = wire.UDSendOnlyImm, 42
	s.Recv(p)
	wc := s.WantRecvWC("received", 1001, ib.WCSuccess)
	if wc.ByteLen != 90 || wc.SrcQP != 0x99 || wc.Flags != ib.WCGRH|ib.WCWithImm || wc.ImmData != 42 || wc.Opcode != ib.WCRecv || wc.SL != 0xa {
		t.Fatalf("%+v", wc)
	}
	grh := append(append([]byte(nil), s.Memory[:30]...), s.Memory[100:110]...)
	for _, b := range grh[:20] {
		if b != 0 {
			t.Fatalf("before the IPv4 header: %x", grh[:20])
		}
	}
	h := grh[20:]
	src, dst := script.Peer.As4(), script.Local.As4()
	if h[0] != 0x45 || h[9] != 17 || string(h[12:16]) != string(src[:]) || string(h[16:20]) != string(dst[:]) {
		t.Fatalf("IPv4 header %x", h)
	}
	if n := binary.BigEndian.Uint16(h[2:]); n != 20+8+12+8+4+50+2+4 {
		t.Fatalf("total length %d", n)
	}
	sum := uint32(0)
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(h[i:]))
	}
	if sum = sum>>16 + sum&0xffff; sum != 0xffff {
		t.Fatalf("checksum: sum %#x", sum)
	}
	s.WantMemory("payload", 110, script.Bytes(50, 3))
	s.WantUntouched("after it", 160, 100)
}

func TestReceiveIPv6(t *testing.T) {
	src, dst := netip.MustParseAddr("2001:db8::2"), v6
	s := script.New(t, newUD)
	s.PostRecv(0, 100)
	p := datagram(4, 1)
	pseudo := wire.NewPseudo(src, dst, 1, 4791)
	p.DestQP, p.PKey = script.QPN, ib.DefaultPKey
	var in wire.Packet
	if m := in.Parse(pseudo.Seal(p.Append(nil), 0)); m != wire.WellFormed {
		t.Fatal(m)
	}
	s.Machine.HandleInput(0, &in, &roce.Meta{Src: src, Dst: dst, TOS: 0x28, HopLimit: 9})
	if wc := s.WantRecvWC("received", 1001, ib.WCSuccess); wc.SL != 9 {
		t.Errorf("SL %#x does not say IPv6", wc.SL)
	}
	h := s.Memory[:40]
	s16, d16 := src.As16(), dst.As16()
	if h[0] != 0x62 || h[1] != 0x80 || h[6] != 17 || h[7] != 9 || string(h[8:24]) != string(s16[:]) || string(h[24:]) != string(d16[:]) {
		t.Fatalf("IPv6 header %x", h)
	}
	s.WantMemory("payload", 40, script.Bytes(4, 1))
}

// A faulty datagram is dropped silently; the receive stays posted.
func TestDropped(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(p *wire.Packet)
		count roce.Counter
	}{
		"Q_Key":      {func(p *wire.Packet) { p.DETH.QKey++ }, roce.WrongQKey},
		"P_Key":      {func(p *wire.Packet) { p.PKey = 0x1234 }, roce.WrongPKey},
		"buffer":     {func(p *wire.Packet) { p.Payload = script.Bytes(61, 1) }, roce.DroppedMessage},
		"MTU":        {func(p *wire.Packet) { p.Payload = script.Bytes(1028, 1) }, roce.DroppedMessage},
		"RC packet":  {func(p *wire.Packet) { p.Opcode = wire.RCSendOnly }, roce.UnexpectedPacket},
		"no receive": {nil, roce.DroppedNoRecv},
	} {
		t.Run(name, func(t *testing.T) {
			s := script.New(t, newUD)
			p := datagram(60, 1)
			if c.spoil != nil {
				s.PostRecv(0, 100)
				c.spoil(&p)
			}
			s.Recv(p)
			s.WantIdle("in silence")
			s.WantCount("counted", c.count, 1)
			s.WantUntouched("nothing placed", 0, 200)
			if c.spoil == nil {
				s.PostRecv(0, 100)
			}
			s.RecvFrom(datagram(60, 2), script.Local)
			s.WantRecvWC("the next, from anyone", 1001, ib.WCSuccess)
		})
	}
}

func TestErrorAndReset(t *testing.T) {
	s := script.New(t, newUD)
	s.PostRecv(0, 100)
	s.SetState(ib.QPErr)
	s.WantRecvWC("flushed", 1001, ib.WCWRFlushErr)
	s.Post(script.Send(1))
	s.WantWC("flushed", 1, ib.WCWRFlushErr)
	s.Recv(datagram(1, 1))
	s.WantIdle("deaf")
	s.SetState(ib.QPReset)
	s.WantIdle("forgotten")
}

// The machine tells where its next packet goes, which is where PollOutput then sends it; and that
// the packet cannot be sent.
func TestNext(t *testing.T) {
	s := script.New(t, newUD)
	m := s.Machine.(roce.Datagrams)
	want := func(dst netip.Addr, q ib.QPN, ok bool) {
		t.Helper()
		path, gotQ, gotOK := m.Next()
		if gotOK != ok || gotQ != q || (path != nil) != dst.IsValid() || path != nil && path.Dst != dst {
			t.Fatalf("%+v, QPN %v, %v; want %v, %v, %v", path, gotQ, gotOK, dst, q, ok)
		}
	}
	want(netip.Addr{}, 0, false)
	a := netip.MustParseAddr("198.51.100.1")
	queueTo(t, s, a, 5)
	queueTo(t, s, netip.MustParseAddr("2001:db8::2"), 6) // of another family
	want(a, 5, true)
	burst := roce.NewBurst()
	if !m.PollOutput(0, burst) || burst.Len() != 1 || burst.Path().Dst != a {
		t.Fatalf("%d packets to %v", burst.Len(), burst.Path())
	}
	want(netip.Addr{}, 0, false) // the other one's error has stopped the queue
}

// queueTo adds a datagram to the send queue without a doorbell.
func queueTo(t *testing.T, s *script.Script, a netip.Addr, q ib.QPN) {
	t.Helper()
	w, ok := s.SQ.Reserve()
	if !ok {
		t.Fatal("the send queue is full")
	}
	w.Opcode, w.Dst, w.RemoteQPN = ib.WRSend, a, q
	s.SQ.Commit()
}

// A burst has one destination, by its address and its queue pair.
func TestBurstHasOneDestination(t *testing.T) {
	s := script.New(t, newUD)
	for _, q := range []ib.QPN{5, 5, 6, 6, 6, 5} {
		queueTo(t, s, script.Peer, q)
	}
	burst := roce.NewBurst()
	for _, want := range []int{2, 3, 1} {
		burst.Reset()
		if !s.Machine.PollOutput(0, burst) || burst.Len() != want {
			t.Errorf("a burst of %d packets, want %d", burst.Len(), want)
		}
	}
}

// A limit of the rate, here of a byte a microsecond, holds datagrams back. The transport sees no
// next one until its time has come.
func TestRateLimit(t *testing.T) {
	const us = monotime.Microsecond
	s := script.New(t, newUD)
	s.Modify(ib.QPAttr{RateLimit: 8000, RateBurst: 1}, ib.QPRateLimit)
	s.Post(script.Send(1000), script.Send(1000))
	s.WantPacket("at once", wire.UDSendOnly, psn)
	if _, _, ok := s.Machine.(roce.Datagrams).Next(); ok {
		t.Fatal("a datagram is next that must wait")
	}
	s.Advance((wire.BTHBytes+wire.DETHBytes+1000+wire.ICRCBytes)*us - 1)
	s.WantQuiet("too early")
	s.Advance(1)
	s.WantPacket("at the rate", wire.UDSendOnly, psn+1)
	s.WantWC("first", 1, ib.WCSuccess)
	s.WantWC("second", 2, ib.WCSuccess)
	s.WantIdle("nothing is held")
}
