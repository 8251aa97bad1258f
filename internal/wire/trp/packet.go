// SPDX-License-Identifier: BSD-2-Clause

package trp

// Packet is a whole datagram.
type Packet struct {
	Header
	Setup   Setup  // of Request, Accept and Reject
	Payload []byte // of Data: the DDP segment, empty in an ACK
}

// Parse takes the UDP payload b apart. With any verdict but WellFormed p holds
// nothing to be relied upon.
func (p *Packet) Parse(b []byte) Malformed {
	h, rest, ok := ParseHeader(b)
	*p = Packet{Header: h}
	switch {
	case !ok:
		return TooShort
	case h.Opcode >= numOpcodes:
		return BadOpcode
	case h.Opcode == Data:
		p.Payload = rest
		return WellFormed
	case h.Opcode.setsUp():
		var m Malformed
		p.Setup, m = parseSetup(rest)
		return m
	case len(rest) > 0:
		return TrailingBytes
	case h.Opcode == SACK && !h.AckPSN.After(h.PSN):
		return EmptyRange
	}
	return WellFormed
}

// Append appends the bytes of p to b.
func (p Packet) Append(b []byte) []byte {
	b = p.Header.Append(b)
	if p.Opcode.setsUp() {
		return p.Setup.append(b)
	}
	return append(b, p.Payload...)
}

// Bytes returns the size of p.
func (p Packet) Bytes() int {
	if p.Opcode.setsUp() {
		return HeaderBytes + SetupBytes + len(p.Setup.PrivateData)
	}
	return HeaderBytes + len(p.Payload)
}
