// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"encoding/binary"

	"verbena/ib"
)

// XRCETHBytes is the size of an XRCETH.
const XRCETHBytes = 4

// XRCETH is the XRC extended transport header, behind the BTH of every request
// of the service: the shared receive queue that the request is for.
//
// Spec: IBTA annex A14.3 (XRC extended transport header).
type XRCETH struct {
	SRQ ib.SRQN
}

// ParseXRCETH reads an XRCETH from the front of b.
func ParseXRCETH(b []byte) (h XRCETH, rest []byte, ok bool) {
	if len(b) < XRCETHBytes {
		return XRCETH{}, b, false
	}
	h.SRQ = ib.SRQN(binary.BigEndian.Uint32(b) & 0xffffff) // reserved (8) | XRCSRQ (24)
	return h, b[XRCETHBytes:], true
}

// Append appends the 4 bytes of h to b.
func (h XRCETH) Append(b []byte) []byte {
	return binary.BigEndian.AppendUint32(b, uint32(h.SRQ)&0xffffff)
}
