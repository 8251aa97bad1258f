// SPDX-License-Identifier: BSD-2-Clause

package script

import (
	"net/netip"

	"verbena/ib"
	"verbena/internal/roce"
	wire "verbena/internal/wire/roce"
)

// Recv plays a packet of the peer's. BTH fields that all packets share are filled in where they are
// zero. In a ring the ICRC field holds the packets that it stands for (roce.Burst.StandsFor).
func (s *Script) Recv(p wire.Packet) {
	s.t.Helper()
	s.RecvFrom(p, Peer)
}

// RecvFrom plays a packet of someone's.
func (s *Script) RecvFrom(p wire.Packet, src netip.Addr) {
	s.t.Helper()
	if p.DestQP == 0 {
		p.DestQP = QPN
	}
	if p.PKey == 0 {
		p.PKey = ib.DefaultPKey
	}
	raw := s.back.Pseudo.Seal(p.Append(nil), 0)
	if !s.back.Pseudo.VerifyWithID(raw, 0) {
		s.fatalf("script cannot seal a packet")
	}
	var in wire.Packet
	if m := in.Parse(raw); m != wire.WellFormed && m != wire.BadOpcode {
		s.fatalf("script made a malformed packet: %v", m)
	}
	if len(s.ring) > 0 {
		in.ICRC = p.ICRC
	}
	s.tell("← %v", Format(&in))
	s.Machine.HandleInput(s.Now, &in,
		&roce.Meta{Src: src, Dst: Local, SrcPort: sourcePort, TOS: s.TOS,
			Long: len(s.ring) > 0})
	s.pump()
}

// Ack acknowledges everything up to psn, without credits.
func Ack(psn ib.PSN, msn ib.MSN) wire.Packet {
	return ackWith(psn, wire.ACK(wire.CreditsInvalid), msn)
}

// AckCredits acknowledges and promises receives.
func AckCredits(psn ib.PSN, msn ib.MSN, receives uint32) wire.Packet {
	return ackWith(psn, wire.ACK(wire.CreditCode(receives)), msn)
}

// Nak refuses the request at psn.
func Nak(psn ib.PSN, code wire.Syndrome) wire.Packet { return ackWith(psn, code, 0) }

// RNR says that no receive is posted for the request at psn.
func RNR(psn ib.PSN, timer uint8) wire.Packet { return ackWith(psn, wire.RNRNAK(timer), 0) }

func ackWith(psn ib.PSN, s wire.Syndrome, msn ib.MSN) wire.Packet {
	return wire.Packet{BTH: wire.BTH{Opcode: wire.RCAcknowledge, PSN: psn},
		AETH: wire.AETH{Syndrome: s, MSN: msn}}
}

// Response is a packet of a READ response, of a responder of Verbena.
func Response(op wire.Opcode, psn ib.PSN, payload []byte) wire.Packet {
	return wire.Packet{BTH: wire.BTH{Opcode: op, PSN: psn, Selective: true},
		AETH: wire.AETH{Syndrome: wire.ACK(wire.CreditsInvalid)}, Payload: payload}
}

// AtomicAck answers an atomic.
func AtomicAck(psn ib.PSN, orig uint64) wire.Packet {
	p := Response(wire.RCAtomicAcknowledge, psn, nil)
	p.AtomicAck.Orig = orig
	return p
}

// Request is a request packet that asks for an acknowledgement if it is the
// last of its message.
func Request(op wire.Opcode, psn ib.PSN, payload []byte) wire.Packet {
	return wire.Packet{BTH: wire.BTH{Opcode: op, PSN: psn, AckReq: op.Info().Last},
		Payload: payload}
}

// At gives a request its remote memory: n bytes at offset off of the machine's.
func (s *Script) At(p wire.Packet, off, n int) wire.Packet {
	va := Base + uint64(off)
	p.RETH = wire.RETH{VA: va, RKey: s.MR.RKey(), DMALen: uint32(n)}
	p.AtomicETH.VA, p.AtomicETH.RKey = va, s.MR.RKey()
	return p
}

// Bytes returns n bytes that differ by place and by mark.
func Bytes(n int, mark byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = mark + byte(i) + byte(i>>8)*7
	}
	return b
}
