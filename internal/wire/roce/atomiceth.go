// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"encoding/binary"

	"verbena/ib"
)

// AtomicETHBytes is the size of an AtomicETH.
const AtomicETHBytes = 28

// AtomicETH is the extended transport header of compare-and-swap and
// fetch-and-add.
//
// Spec: IBTA vol. 1, 9.3 Extended transport headers.
type AtomicETH struct {
	VA      uint64 // must be a multiple of 8
	RKey    ib.RKey
	SwapAdd uint64 // the value to swap in, or to add
	Compare uint64 // ignored by fetch-and-add
}

// ParseAtomicETH reads an AtomicETH from the front of b.
func ParseAtomicETH(b []byte) (h AtomicETH, rest []byte, ok bool) {
	if len(b) < AtomicETHBytes {
		return AtomicETH{}, b, false
	}
	h.VA = binary.BigEndian.Uint64(b)
	h.RKey = ib.RKey(binary.BigEndian.Uint32(b[8:]))
	h.SwapAdd = binary.BigEndian.Uint64(b[12:])
	h.Compare = binary.BigEndian.Uint64(b[20:])
	return h, b[AtomicETHBytes:], true
}

// Append appends the 28 bytes of h to b.
func (h AtomicETH) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, h.VA)
	b = binary.BigEndian.AppendUint32(b, uint32(h.RKey))
	b = binary.BigEndian.AppendUint64(b, h.SwapAdd)
	return binary.BigEndian.AppendUint64(b, h.Compare)
}
