// SPDX-License-Identifier: BSD-2-Clause

package rping

import (
	"encoding/binary"

	"verbena/ib"
)

// InfoSize is the length of an Info in a message.
const InfoSize = 16

// Info has the place where the peer may read or write: address (8), key (4), size (4), each
// big-endian.
type Info struct {
	Addr uint64
	RKey ib.RKey
	Size uint32 // bytes
}

// Append appends the message.
func (i Info) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, i.Addr)
	b = binary.BigEndian.AppendUint32(b, uint32(i.RKey))
	return binary.BigEndian.AppendUint32(b, i.Size)
}

// ParseInfo parses a whole message.
func ParseInfo(b []byte) (i Info, ok bool) {
	if len(b) != InfoSize {
		return Info{}, false
	}
	return Info{
		Addr: binary.BigEndian.Uint64(b),
		RKey: ib.RKey(binary.BigEndian.Uint32(b[8:])),
		Size: binary.BigEndian.Uint32(b[12:]),
	}, true
}
