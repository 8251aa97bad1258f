// SPDX-License-Identifier: BSD-2-Clause

package roce

import "encoding/binary"

// MinPacketBytes is the shortest UDP payload that can be a packet.
const MinPacketBytes = BTHBytes + ICRCBytes

// Packet is a UDP payload taken apart. Info says which extended headers are meaningful; the others
// are zero. Payload and Raw alias the buffer.
type Packet struct {
	BTH
	Info *OpInfo

	XRCETH    XRCETH
	DETH      DETH
	FETH      FETH
	RETH      RETH
	AtomicETH AtomicETH
	AETH      AETH
	AtomicAck AtomicAckETH
	ImmDt     ImmDt
	IETH      IETH

	Payload []byte // without the pad
	ICRC    uint32 // as received; Pseudo.Verify checks it
	Raw     []byte // all of it, ICRC included
}

// Parse takes apart b, a UDP payload from the first byte of BTH to the last of the ICRC. It reports
// any fault of the form, and does not check the ICRC. In a malformed packet the fields parsed
// before the fault are set. From BadTVer on that is BTH, Info, ICRC and Raw, so that a responder
// can NAK an opcode it does not know.
//
// Spec: IBTA vol. 1, 9.6 (packet header validation).
func (p *Packet) Parse(b []byte) Malformed {
	*p = Packet{Raw: b, Info: &reservedRow}
	if len(b) < MinPacketBytes {
		return TooShort
	}
	if len(b)%4 != 0 {
		return BadLength
	}
	p.BTH.decode(b)
	p.Info = p.Row()
	end := len(b) - ICRCBytes
	p.ICRC = binary.LittleEndian.Uint32(b[end:])
	if p.TVer != 0 {
		return BadTVer
	}
	if !p.Info.Valid {
		return BadOpcode
	}
	if end < p.Info.HeaderBytes {
		return ShortHeaders
	}
	p.parseExtended(b[BTHBytes:end])
	payload := b[p.Info.HeaderBytes:end]
	if !p.Info.HasPayload {
		if len(payload) != 0 || p.Pad != 0 {
			return PayloadNotAllowed
		}
		return WellFormed
	}
	if int(p.Pad) > len(payload) {
		return BadPad
	}
	p.Payload = payload[:len(payload)-int(p.Pad)]
	return WellFormed
}

// reservedRow stands for the opcode of a packet too short to have one.
var reservedRow = OpInfo{Name: "too short", HeaderBytes: BTHBytes}

// parseExtended reads the extended headers; Parse has checked that they fit.
func (p *Packet) parseExtended(b []byte) {
	i := p.Info
	if i.HasXRCETH {
		p.XRCETH, b, _ = ParseXRCETH(b)
	}
	if i.HasDETH {
		p.DETH, b, _ = ParseDETH(b)
	}
	if i.HasFETH {
		p.FETH, b, _ = ParseFETH(b)
	}
	if i.HasRETH {
		p.RETH, b, _ = ParseRETH(b)
	}
	if i.HasAtomicETH {
		p.AtomicETH, b, _ = ParseAtomicETH(b)
	}
	if i.HasAETH {
		p.AETH, b, _ = ParseAETH(b)
	}
	if i.HasAtomicAck {
		p.AtomicAck, b, _ = ParseAtomicAckETH(b)
	}
	if i.HasImm {
		p.ImmDt, b, _ = ParseImmDt(b)
	}
	if i.HasIETH {
		p.IETH, _, _ = ParseIETH(b)
	}
}

// Append appends the packet without its ICRC: BTH, the extended headers of its
// Row, Payload and pad. Info and Pad are not read: the BTH and the
// payload's length say them. Pseudo.Seal appends the ICRC.
func (p *Packet) Append(b []byte) []byte {
	h, i := p.BTH, p.Row()
	h.Pad = PadBytes(len(p.Payload))
	b = h.Append(b)
	if i.HasXRCETH {
		b = p.XRCETH.Append(b)
	}
	if i.HasDETH {
		b = p.DETH.Append(b)
	}
	if i.HasFETH {
		b = p.FETH.Append(b)
	}
	if i.HasRETH {
		b = p.RETH.Append(b)
	}
	if i.HasAtomicETH {
		b = p.AtomicETH.Append(b)
	}
	if i.HasAETH {
		b = p.AETH.Append(b)
	}
	if i.HasAtomicAck {
		b = p.AtomicAck.Append(b)
	}
	if i.HasImm {
		b = p.ImmDt.Append(b)
	}
	if i.HasIETH {
		b = p.IETH.Append(b)
	}
	b = append(b, p.Payload...)
	return append(b, padding[:h.Pad]...)
}

var padding [3]byte

// PadBytes returns the pad that aligns n payload bytes to 4.
func PadBytes(n int) uint8 { return uint8(-n & 3) }
