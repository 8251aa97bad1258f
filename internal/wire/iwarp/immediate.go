// SPDX-License-Identifier: BSD-2-Clause

package iwarp

import "encoding/binary"

// ImmediateBytes is the size of immediate data.
const ImmediateBytes = 8

// ImmData is immediate data. The 4 bytes of verbs go first; the other 4 are
// zero, as Chelsio's driver has them.
//
// Spec: RFC 7306, 6 (immediate data): 8 bytes whose meaning is the ULP's.
type ImmData struct{ Data uint32 }

// ParseImmData reads immediate data from the front of b.
func ParseImmData(b []byte) (i ImmData, rest []byte, ok bool) {
	if len(b) < ImmediateBytes {
		return ImmData{}, b, false
	}
	return ImmData{Data: binary.BigEndian.Uint32(b)}, b[ImmediateBytes:], true
}

// Append appends the 8 bytes of i to b.
func (i ImmData) Append(b []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, i.Data), 0, 0, 0, 0)
}
