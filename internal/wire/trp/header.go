// SPDX-License-Identifier: BSD-2-Clause

package trp

import "encoding/binary"

// HeaderBytes is the size of a Header.
const HeaderBytes = 10

// The last field of the header: opcode (4) | reserved (12), sent as zero and
// ignored when received.
const opcodeShift = 12

// Header is the beginning of every datagram. The meaning of PSN and AckPSN depends
// on the opcode:
//
//	Data     PSN of the segment; of an ACK the next one to be sent
//	         AckPSN: all before it have arrived
//	FIN      as an ACK
//	SACK     see Header.Range
//	others   PSN is 0; AckPSN see Setup
type Header struct {
	PSN    PSN
	AckPSN PSN
	Opcode Opcode
}

// ParseHeader reads a Header from the front of b. The opcode may be one that
// is not assigned.
func ParseHeader(b []byte) (h Header, rest []byte, ok bool) {
	if len(b) < HeaderBytes {
		return Header{}, b, false
	}
	h.PSN = PSN(binary.BigEndian.Uint32(b))        // psn (32)
	h.AckPSN = PSN(binary.BigEndian.Uint32(b[4:])) // ack_psn (32)
	h.Opcode = Opcode(b[8] >> (opcodeShift - 8))   // opcode (4) | reserved (12)
	return h, b[HeaderBytes:], true
}

// Append appends the 10 bytes of h to b.
func (h Header) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(h.PSN))
	b = binary.BigEndian.AppendUint32(b, uint32(h.AckPSN))
	return binary.BigEndian.AppendUint16(b, uint16(h.Opcode)<<opcodeShift)
}
