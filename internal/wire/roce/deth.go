// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"encoding/binary"

	"verbena/ib"
)

// DETHBytes is the size of a DETH.
const DETHBytes = 8

// DETH is the datagram extended transport header of UD packets.
//
// Spec: IBTA vol. 1, 9.3 Extended transport headers.
type DETH struct {
	QKey  ib.QKey
	SrcQP ib.QPN
}

// ParseDETH reads a DETH from the front of b.
func ParseDETH(b []byte) (h DETH, rest []byte, ok bool) {
	if len(b) < DETHBytes {
		return DETH{}, b, false
	}
	h.QKey = ib.QKey(binary.BigEndian.Uint32(b))
	h.SrcQP = ib.QPN(binary.BigEndian.Uint32(b[4:]) & 0xffffff) // reserved (8) | SrcQP (24)
	return h, b[DETHBytes:], true
}

// Append appends the 8 bytes of h to b.
func (h DETH) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(h.QKey))
	return binary.BigEndian.AppendUint32(b, uint32(h.SrcQP)&0xffffff)
}
