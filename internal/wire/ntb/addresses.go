// SPDX-License-Identifier: BSD-2-Clause

package ntb

import (
	"encoding/binary"

	"verbena/ib"
)

// MaxAddresses is the number of addresses that fit into a command.
const MaxAddresses = (CommandBytes - CommandHeaderBytes - addressesBytes) / 16

const addressesBytes = 8

// Addresses say which GIDs the sender's port has: all of them, instead of those
// named before.
type Addresses struct {
	Count uint32 // of GIDs that hold
	GIDs  [MaxAddresses]ib.GID
}

// ParseAddresses reads Addresses behind their header.
func ParseAddresses(b []byte) (a Addresses, rest []byte, ok bool) {
	if len(b) < addressesBytes {
		return Addresses{}, b, false
	}
	// count (32) reserved (32)
	a.Count = binary.LittleEndian.Uint32(b)
	rest = b[addressesBytes:]
	if a.Count > MaxAddresses || len(rest) < 16*int(a.Count) {
		return Addresses{}, b, false
	}
	for i := range a.GIDs[:a.Count] {
		rest = rest[copy(a.GIDs[i][:], rest):]
	}
	return a, rest, true
}

// Append appends the bytes of a to b.
func (a Addresses) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, a.Count)
	b = binary.LittleEndian.AppendUint32(b, 0)
	for i := range a.GIDs[:a.Count] {
		b = append(b, a.GIDs[i][:]...)
	}
	return b
}
