// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"
)

// sample returns a packet of an opcode with every header filled in.
func sample(o Opcode, payloadBytes int) Packet {
	p := Packet{
		BTH:       BTH{Opcode: o, MigReq: true, PKey: 0xffff, DestQP: 0x11, AckReq: true, PSN: 7},
		XRCETH:    XRCETH{SRQ: 0x654321},
		DETH:      DETH{QKey: 0x11111111, SrcQP: 0x12},
		FETH:      FETH{PLT: 1, SEL: 1},
		RETH:      RETH{VA: 0x1000, RKey: 0x2000, DMALen: 0x3000},
		AtomicETH: AtomicETH{VA: 8, RKey: 9, SwapAdd: 10, Compare: 11},
		AETH:      AETH{Syndrome: 0x1f, MSN: 3},
		AtomicAck: AtomicAckETH{Orig: 12},
		ImmDt:     ImmDt{Data: 13},
		IETH:      IETH{RKey: 14},
	}
	if o.Info().HasPayload {
		for i := range payloadBytes {
			p.Payload = append(p.Payload, byte(i+1))
		}
	}
	return p
}

// onlyPresent clears the fields that the opcode does not carry, as Parse leaves them.
func onlyPresent(p Packet) Packet {
	i := p.Opcode.Info()
	if !i.HasXRCETH {
		p.XRCETH = XRCETH{}
	}
	if !i.HasDETH {
		p.DETH = DETH{}
	}
	if !i.HasFETH {
		p.FETH = FETH{}
	}
	if !i.HasRETH {
		p.RETH = RETH{}
	}
	if !i.HasAtomicETH {
		p.AtomicETH = AtomicETH{}
	}
	if !i.HasAETH {
		p.AETH = AETH{}
	}
	if !i.HasAtomicAck {
		p.AtomicAck = AtomicAckETH{}
	}
	if !i.HasImm {
		p.ImmDt = ImmDt{}
	}
	if !i.HasIETH {
		p.IETH = IETH{}
	}
	return p
}

// equal compares all of two packets but Raw, ICRC and where the payload lies.
func equal(a, b Packet) bool {
	same := bytes.Equal(a.Payload, b.Payload)
	for _, p := range []*Packet{&a, &b} {
		p.Payload, p.Raw, p.ICRC, p.Info = nil, nil, 0, nil
	}
	return same && a.BTH == b.BTH && a.XRCETH == b.XRCETH && a.DETH == b.DETH && a.FETH == b.FETH && a.RETH == b.RETH && a.AtomicETH == b.AtomicETH &&
		a.AETH == b.AETH && a.AtomicAck == b.AtomicAck && a.ImmDt == b.ImmDt && a.IETH == b.IETH
}

// TestAllOpcodesRoundTrip takes every opcode with every pad through
// Append and Parse.
func TestAllOpcodesRoundTrip(t *testing.T) {
	for o := range 256 {
		for size := range 9 {
			in := sample(Opcode(o), size)
			b := append(in.Append(nil), 1, 2, 3, 4)
			var out Packet
			m := out.Parse(b)
			if !Opcode(o).Info().Valid {
				if m != BadOpcode || out.Opcode != Opcode(o) || out.PSN != in.PSN || out.DestQP != in.DestQP {
					t.Errorf("%#02x: %v, BTH %+v", o, m, out.BTH)
				}
				continue
			}
			in.Pad = PadBytes(len(in.Payload))
			if m != WellFormed || !equal(out, onlyPresent(in)) || out.ICRC != 0x04030201 || out.Info != Opcode(o).Info() || &out.Raw[0] != &b[0] {
				t.Errorf("%v, %d bytes: %v\n got %+v\nwant %+v", Opcode(o), size, m, out, onlyPresent(in))
			}
		}
	}
}

func TestMalformed(t *testing.T) {
	seal := func(p Packet) []byte { return append(p.Append(nil), 0, 0, 0, 0) }
	set := func(b []byte, at int, v byte) []byte { b[at] = v; return b }
	for _, c := range []struct {
		name string
		b    []byte
		want Malformed
	}{
		{"nothing", nil, TooShort},
		{"one byte", []byte{4}, TooShort},
		{"BTH without ICRC", make([]byte, BTHBytes), TooShort},
		{"BTH and ICRC", make([]byte, MinPacketBytes), WellFormed},
		{"odd length", make([]byte, MinPacketBytes+1), BadLength},
		{"reserved RC opcode", set(make([]byte, MinPacketBytes), 0, 0x15), BadOpcode},
		{"RD", set(make([]byte, 64), 0, 0x44), BadOpcode},
		{"version 1", set(make([]byte, MinPacketBytes), 1, 1), BadTVer},
		{"WRITE without RETH", set(make([]byte, MinPacketBytes+12), 0, byte(RCRDMAWriteOnly)), ShortHeaders},
		{"atomic cut", set(make([]byte, MinPacketBytes+24), 0, byte(RCFetchAdd)), ShortHeaders},
		{"XRC SEND without XRCETH", set(make([]byte, MinPacketBytes), 0, byte(XRCSendMiddle)), ShortHeaders},
		{"reserved XRC opcode", set(make([]byte, MinPacketBytes), 0, 0xb5), BadOpcode},
		{"pad without payload", set(make([]byte, MinPacketBytes), 1, 0x10), BadPad},
		{"pad as long as payload", set(make([]byte, MinPacketBytes+4), 1, 0x30), WellFormed},
		{"ACK with payload", append(seal(sample(RCAcknowledge, 0)), 0, 0, 0, 0), PayloadNotAllowed},
		{"ACK with pad", set(seal(sample(RCAcknowledge, 0)), 1, 0x30), PayloadNotAllowed},
		{"READ request with payload", append(seal(sample(RCRDMAReadRequest, 0)), 0, 0, 0, 0), PayloadNotAllowed},
		{"FLUSH with payload", append(seal(sample(RCFlush, 0)), 0, 0, 0, 0), PayloadNotAllowed},
	} {
		var p Packet
		if got := p.Parse(c.b); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		if p.Info == nil || len(p.Raw) != len(c.b) {
			t.Errorf("%s: Info %v, Raw %d bytes", c.name, p.Info, len(p.Raw))
		}
	}
	names := map[string]bool{}
	for m := range NumMalformed {
		if s := m.String(); s == "" || s == "unknown" || names[s] {
			t.Errorf("%d has no name of its own: %q", m, s)
		} else {
			names[s] = true
		}
	}
}

// TestParseForgets holds that a Packet used again keeps nothing of the last one.
func TestParseForgets(t *testing.T) {
	var p Packet
	atomic := sample(RCCompareSwap, 0)
	p.Parse(append(atomic.Append(nil), 0, 0, 0, 0))
	ack := sample(RCAcknowledge, 0)
	b := append(ack.Append(nil), 0, 0, 0, 0)
	p.Parse(b)
	if !equal(p, onlyPresent(ack)) {
		t.Errorf("%+v", p)
	}
	if p.Parse(nil); p.Opcode != 0 || p.Raw != nil || p.ICRC != 0 {
		t.Errorf("%+v", p)
	}
}

// FuzzVerify checks anything. An identification that is solved must be the one
// that makes the ICRC right, and a sealed packet must be solved to its own.
func FuzzVerify(f *testing.F) {
	p := sample(RCSendOnly, 5)
	f.Add(append(p.Append(nil), 1, 2, 3, 4), uint16(1144), uint16(0))
	v4 := NewPseudo(netip.MustParseAddr("10.77.0.2"), netip.MustParseAddr("10.77.0.3"), 0xc000, Port)
	v6 := NewPseudo(netip.MustParseAddr("fd77::2"), netip.MustParseAddr("fd77::3"), 0xc000, Port)
	f.Fuzz(func(t *testing.T, b []byte, id, hint uint16) {
		for _, ps := range []Pseudo{v4, v6} {
			if solved, ok := ps.Verify(b, hint); ok && !ps.VerifyWithID(b, solved) {
				t.Fatalf("solved %d, which is wrong", solved)
			}
			if len(b) < BTHBytes || len(b)%4 != 0 {
				continue
			}
			sealed := ps.Seal(bytes.Clone(b), id)
			if got := binary.LittleEndian.Uint32(sealed[len(b):]); got != slowICRC(ps.v6, b, id) {
				t.Fatalf("ICRC %08x, want %08x", got, slowICRC(ps.v6, b, id))
			}
			if solved, ok := ps.Verify(sealed, hint); !ok || solved != id && !ps.v6 {
				t.Fatalf("sealed with %d, solved %d, %v", id, solved, ok)
			}
		}
	})
}
