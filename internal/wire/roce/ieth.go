// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"encoding/binary"

	"verbena/ib"
)

// IETHBytes is the size of an IETH.
const IETHBytes = 4

// IETH names the key that a SEND with invalidate invalidates at the receiver.
//
// Spec: IBTA vol. 1, 9.3 Extended transport headers.
type IETH struct {
	RKey ib.RKey
}

// ParseIETH reads an IETH from the front of b.
func ParseIETH(b []byte) (h IETH, rest []byte, ok bool) {
	if len(b) < IETHBytes {
		return IETH{}, b, false
	}
	h.RKey = ib.RKey(binary.BigEndian.Uint32(b))
	return h, b[IETHBytes:], true
}

// Append appends the 4 bytes of h to b.
func (h IETH) Append(b []byte) []byte {
	return binary.BigEndian.AppendUint32(b, uint32(h.RKey))
}
