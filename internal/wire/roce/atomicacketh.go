// SPDX-License-Identifier: BSD-2-Clause

package roce

import "encoding/binary"

// AtomicAckETHBytes is the size of an AtomicAckETH.
const AtomicAckETHBytes = 8

// AtomicAckETH carries the old value of an atomic's remote memory.
//
// Spec: IBTA vol. 1, 9.3 Extended transport headers.
type AtomicAckETH struct {
	Orig uint64
}

// ParseAtomicAckETH reads an AtomicAckETH from the front of b.
func ParseAtomicAckETH(b []byte) (h AtomicAckETH, rest []byte, ok bool) {
	if len(b) < AtomicAckETHBytes {
		return AtomicAckETH{}, b, false
	}
	h.Orig = binary.BigEndian.Uint64(b)
	return h, b[AtomicAckETHBytes:], true
}

// Append appends the 8 bytes of h to b.
func (h AtomicAckETH) Append(b []byte) []byte {
	return binary.BigEndian.AppendUint64(b, h.Orig)
}
