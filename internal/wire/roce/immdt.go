// SPDX-License-Identifier: BSD-2-Clause

package roce

import "encoding/binary"

// ImmDtBytes is the size of an ImmDt.
const ImmDtBytes = 4

// ImmDt is immediate data, delivered in the receiver's completion.
//
// Spec: IBTA vol. 1, 9.3 Extended transport headers.
type ImmDt struct {
	Data uint32 // as a number; on the wire big-endian
}

// ParseImmDt reads an ImmDt from the front of b.
func ParseImmDt(b []byte) (h ImmDt, rest []byte, ok bool) {
	if len(b) < ImmDtBytes {
		return ImmDt{}, b, false
	}
	h.Data = binary.BigEndian.Uint32(b)
	return h, b[ImmDtBytes:], true
}

// Append appends the 4 bytes of h to b.
func (h ImmDt) Append(b []byte) []byte {
	return binary.BigEndian.AppendUint32(b, h.Data)
}
