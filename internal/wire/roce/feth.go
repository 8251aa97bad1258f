// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"encoding/binary"

	"verbena/ib"
)

// FETHBytes is the size of a FETH.
const FETHBytes = 4

// Bits of FETH: reserved (26) | SEL (2) | PLT (4).
const (
	fethPLTMask  = 0x0f
	fethSELShift = 4
	fethSELMask  = 0x03
)

// FETH is the FLUSH extended transport header. A RETH follows it.
//
// Spec: IBTA annex A19.4.1.
type FETH struct {
	PLT ib.FlushType  // placement type, 4 bits
	SEL ib.FlushLevel // selectivity level, 2 bits
}

// ParseFETH reads a FETH from the front of b.
func ParseFETH(b []byte) (h FETH, rest []byte, ok bool) {
	if len(b) < FETHBytes {
		return FETH{}, b, false
	}
	v := binary.BigEndian.Uint32(b)
	h.PLT = ib.FlushType(v & fethPLTMask)
	h.SEL = ib.FlushLevel(v >> fethSELShift & fethSELMask)
	return h, b[FETHBytes:], true
}

// Append appends the 4 bytes of h to b.
func (h FETH) Append(b []byte) []byte {
	return binary.BigEndian.AppendUint32(b,
		uint32(h.SEL&fethSELMask)<<fethSELShift|uint32(h.PLT&fethPLTMask))
}
