// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"encoding/binary"

	"verbena/ib"
)

// AETHBytes is the size of an AETH.
const AETHBytes = 4

// AETH is the ACK extended transport header: how a request fared, and the
// message sequence number of the last message completed.
//
// Spec: IBTA vol. 1, 9.3 Extended transport headers, 9.7.5.2 (its values).
type AETH struct {
	Syndrome Syndrome
	MSN      ib.MSN
}

// ParseAETH reads an AETH from the front of b.
func ParseAETH(b []byte) (h AETH, rest []byte, ok bool) {
	if len(b) < AETHBytes {
		return AETH{}, b, false
	}
	v := binary.BigEndian.Uint32(b) // Syndrome (8) | MSN (24)
	h.Syndrome = Syndrome(v >> 24)
	h.MSN = ib.MSN(v & 0xffffff)
	return h, b[AETHBytes:], true
}

// Append appends the 4 bytes of h to b.
func (h AETH) Append(b []byte) []byte {
	return binary.BigEndian.AppendUint32(b, uint32(h.Syndrome)<<24|uint32(h.MSN)&0xffffff)
}
