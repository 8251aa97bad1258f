// SPDX-License-Identifier: BSD-2-Clause

package iwarp

import (
	"encoding/binary"

	"verbena/ib"
)

// ReadRequestBytes is the size of an RDMA READ request header.
const ReadRequestBytes = 28

// ReadReq asks for Size bytes at SrcTO to be sent to SinkTO.
//
// Spec: RFC 5040, 4.4 (RDMA read request header).
type ReadReq struct {
	SinkSTag ib.RKey
	SinkTO   uint64
	Size     uint32
	SrcSTag  ib.RKey
	SrcTO    uint64
}

// ParseReadReq reads a READ request header from the front of b.
func ParseReadReq(b []byte) (r ReadReq, rest []byte, ok bool) {
	if len(b) < ReadRequestBytes {
		return ReadReq{}, b, false
	}
	r.SinkSTag = ib.RKey(binary.BigEndian.Uint32(b))
	r.SinkTO = binary.BigEndian.Uint64(b[4:])
	r.Size = binary.BigEndian.Uint32(b[12:])
	r.SrcSTag = ib.RKey(binary.BigEndian.Uint32(b[16:]))
	r.SrcTO = binary.BigEndian.Uint64(b[20:])
	return r, b[ReadRequestBytes:], true
}

// Append appends the 28 bytes of r to b.
func (r ReadReq) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(r.SinkSTag))
	b = binary.BigEndian.AppendUint64(b, r.SinkTO)
	b = binary.BigEndian.AppendUint32(b, r.Size)
	b = binary.BigEndian.AppendUint32(b, uint32(r.SrcSTag))
	return binary.BigEndian.AppendUint64(b, r.SrcTO)
}
