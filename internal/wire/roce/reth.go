// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"encoding/binary"

	"verbena/ib"
)

// RETHBytes is the size of a RETH.
const RETHBytes = 16

// RETH is the RDMA extended transport header: the remote memory of an RDMA
// READ, WRITE, FLUSH or ATOMIC WRITE.
//
// Spec: IBTA vol. 1, 9.3 Extended transport headers.
type RETH struct {
	VA     uint64
	RKey   ib.RKey
	DMALen uint32 // bytes of the whole message, 0 to 2^31
}

// ParseRETH reads a RETH from the front of b.
func ParseRETH(b []byte) (h RETH, rest []byte, ok bool) {
	if len(b) < RETHBytes {
		return RETH{}, b, false
	}
	h.VA = binary.BigEndian.Uint64(b)
	h.RKey = ib.RKey(binary.BigEndian.Uint32(b[8:]))
	h.DMALen = binary.BigEndian.Uint32(b[12:])
	return h, b[RETHBytes:], true
}

// Append appends the 16 bytes of h to b.
func (h RETH) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, h.VA)
	b = binary.BigEndian.AppendUint32(b, uint32(h.RKey))
	return binary.BigEndian.AppendUint32(b, h.DMALen)
}
