// SPDX-License-Identifier: BSD-2-Clause

package rc_test

import (
	"net/netip"
	"testing"

	"verbena/ib"
	"verbena/internal/roce"
	"verbena/internal/testkit/script"
	wire "verbena/internal/wire/roce"
)

// Bits of Verbena are believed in answers to what is outstanding. A forged packet, or a late one of
// an earlier connection, does not make a foreign responder one of Verbena.
func TestBitsOfOtherConnections(t *testing.T) {
	other := netip.MustParseAddr("192.0.2.3")
	sack := func(from ib.PSN) wire.Packet {
		s := wire.SACK{From: from, Upper: from.Add(2), Gaps: []wire.Gap{{First: from, End: from.Add(1)}}}
		payload, _ := s.Append(nil, from)
		return wire.Packet{BTH: wire.BTH{Opcode: wire.SelectiveAcknowledge, PSN: from}, Payload: payload}
	}
	for name, c := range map[string]struct {
		packet  func(newest ib.PSN) wire.Packet
		src     netip.Addr
		believe bool
	}{
		"its answer":      {func(n ib.PSN) wire.Packet { return script.Ack(n.Prev(), 0) }, script.Peer, true},
		"its NAK":         {func(n ib.PSN) wire.Packet { return script.Nak(n.Prev(), wire.NAKPSNSequence) }, script.Peer, true},
		"its SACK":        {func(n ib.PSN) wire.Packet { return sack(n.Prev()) }, script.Peer, true},
		"of another host": {func(n ib.PSN) wire.Packet { return script.Ack(n.Prev(), 0) }, other, false},
		"ACK to come":     {func(n ib.PSN) wire.Packet { return script.Ack(n+1, 0) }, script.Peer, false},
		"far ACK":         {func(n ib.PSN) wire.Packet { return script.Ack(n.Add(1<<23), 0) }, script.Peer, false},
		"old ACK":         {func(n ib.PSN) wire.Packet { return script.Ack(n-9, 0) }, script.Peer, false},
		"NAK to come":     {func(n ib.PSN) wire.Packet { return script.Nak(n+1, wire.NAKPSNSequence) }, script.Peer, false},
		"old NAK":         {func(n ib.PSN) wire.Packet { return script.Nak(n-9, wire.NAKInvalidRequest) }, script.Peer, false},
		"SACK to come":    {func(n ib.PSN) wire.Packet { return sack(n + 1) }, script.Peer, false},
		"old response": {func(n ib.PSN) wire.Packet {
			return script.Response(wire.RCRDMAReadResponseOnly, n-9, script.Bytes(8, 1))
		}, script.Peer, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := script.New(t, newRC, large)
			open(s, false)
			s.Post(script.Write(8 << 10))
			newest := s.WantDrain("outstanding", 2)[1].PSN
			p := c.packet(newest)
			p.Selective, p.AllRETH = true, true
			s.RecvFrom(p, c.src)
			s.Packets() // what it has the requester repeat
			s.Recv(script.Ack(newest, 0))
			s.WantWC("outstanding", 9, ib.WCSuccess)
			s.Post(script.Write(16<<10), script.Read(8))
			list := s.Packets()
			for i, p := range list[1:4] {
				if p.Info.HasRETH != c.believe {
					t.Errorf("packet %d: %v", i+1, script.Format(&p))
				}
			}
			s.Recv(script.Ack(list[3].PSN, 0))
			s.Recv(foreignResponse(wire.RCRDMAReadResponseOnly, list[4].PSN, script.Bytes(8, 1)))
			s.Post(script.Read(8))
			if p := s.WantPacket("READ", wire.RCRDMAReadRequest, list[4].PSN+1); p.Overtakes != c.believe {
				t.Errorf("%v, overtakes %v", script.Format(&p), p.Overtakes)
			}
		})
	}
}

// foreignResponse is a response of a responder other than Verbena.
func foreignResponse(op wire.Opcode, psn ib.PSN, payload []byte) wire.Packet {
	p := script.Response(op, psn, payload)
	p.Selective = false
	return p
}

// A queue pair that was connected to Verbena, and is then connected to another peer, knows nothing
// of that one.
func TestBitsEndWithTheConnection(t *testing.T) {
	s := script.New(t, newRC, large)
	readsRETHs(s)
	s.SetState(ib.QPReset)
	s.Connect()
	s.Post(script.Write(1))
	s.WantPacket("a byte", wire.RCRDMAWriteOnly, psn)
	s.Recv(script.Ack(psn, 0))
	s.Post(script.Write(16 << 10))
	list := s.Packets()
	if len(list) < 3 {
		t.Fatalf("%d packets", len(list))
	}
	for _, p := range list[1:] {
		if p.Info.HasRETH || p.AllRETH {
			t.Errorf("%v", script.Format(&p))
		}
	}
}

// No packet is longer than a First: what carries that, such as an interface's MTU of 4,200, carries
// all.
func TestAllRETHIsNoLongerThanAFirst(t *testing.T) {
	const most = wire.BTHBytes + wire.RETHBytes + 4096 + wire.ICRCBytes
	for _, n := range []int{8 << 10, 12<<10 - 1, 12<<10 - 3, 64 << 10} {
		s := script.New(t, newRC, large)
		readsRETHs(s)
		s.Post(script.Write(n), script.WriteImm(n, 7))
		for _, p := range s.Packets() {
			if len(p.Raw) > most {
				t.Errorf("%v: %d bytes", script.Format(&p), len(p.Raw))
			}
		}
	}
}

// A Middle that lies is refused when its turn comes, too. One whose PSN was taken before has no
// effect: it is acknowledged again.
func TestAllRETHThatLiesOutOfTurn(t *testing.T) {
	s := script.New(t, newRC)
	first := withRETH(s, wire.RCRDMAWriteFirst, 0)
	s.Recv(first)
	lies := withRETH(s, wire.RCRDMAWriteMiddle, 2)
	lies.RETH.VA -= 3 * 1024
	s.Recv(lies)
	s.WantNak("a gap", peerPSN+1, wire.NAKPSNSequence)
	s.Recv(withRETH(s, wire.RCRDMAWriteMiddle, 1))
	s.WantAck("the gap is filled", peerPSN+1, 0)
	s.WantNak("refused", peerPSN+2, wire.NAKInvalidRequest)
	s.WantUntouched("nothing placed", 2048, len(s.Memory)-2048)
	s.WantMemory("placed", 0, script.Bytes(1024, 0))

	s = script.New(t, newRC)
	s.Recv(withRETH(s, wire.RCRDMAWriteFirst, 0))
	s.Recv(withRETH(s, wire.RCRDMAWriteMiddle, 1))
	lies = withRETH(s, wire.RCRDMAWriteMiddle, 1)
	lies.RETH.VA, lies.RETH.DMALen = script.Base+8192, 1<<20
	lies.Payload = script.Bytes(1024, 9)
	s.Recv(lies)
	s.WantAck("again", peerPSN+1, 0)
	s.WantUntouched("nothing placed", 2048, 16<<10)
	s.WantMemory("placed once", 1024, script.Bytes(1024, 1))
	s.WantCount("it is one", roce.DuplicateRequest, 1)
}
