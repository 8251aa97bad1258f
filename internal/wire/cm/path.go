// SPDX-License-Identifier: BSD-2-Clause

package cm

import (
	"encoding/binary"

	"verbena/ib"
)

// PathSize is the length of a path in a REQ.
const PathSize = 44

// Path is the primary or alternate path of a REQ. Local is the sender of the
// REQ. Over RoCE the LIDs mean nothing: 0xffff in a primary path.
//
// Spec: IBTA vol. 1, table 106, bytes 52 to 95 and 96 to 139.
type Path struct {
	LocalLID     uint16
	RemoteLID    uint16
	LocalGID     ib.GID
	RemoteGID    ib.GID
	FlowLabel    uint32 // 20 bits
	Rate         uint8  // 6 bits
	TrafficClass uint8
	HopLimit     uint8
	SL           uint8 // 4 bits
	SubnetLocal  bool
	ACKTimeout   uint8 // 5 bits: the local ACK time-out is 4.096 µs × 2^ACKTimeout
}

// LIDRoCE stands in both LID fields of a path over Ethernet.
const LIDRoCE = 0xffff

// ParsePath reads a path and returns the bytes behind it.
func ParsePath(b []byte) (p Path, rest []byte, ok bool) {
	if len(b) < PathSize {
		return p, b, false
	}
	p.LocalLID = binary.BigEndian.Uint16(b)
	p.RemoteLID = binary.BigEndian.Uint16(b[2:])
	copy(p.LocalGID[:], b[4:])
	copy(p.RemoteGID[:], b[20:])
	w := binary.BigEndian.Uint32(b[36:]) // flow label 20 | reserved 6 | rate 6
	p.FlowLabel, p.Rate = w>>12, uint8(w)&0x3f
	p.TrafficClass, p.HopLimit = b[40], b[41]
	p.SL, p.SubnetLocal = b[42]>>4, b[42]&0x08 != 0 // SL 4 | subnet local 1 | reserved 3
	p.ACKTimeout = b[43] >> 3                       // time-out 5 | reserved 3
	return p, b[PathSize:], true
}

// Append writes the 44 bytes of p.
func (p Path) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, p.LocalLID)
	b = binary.BigEndian.AppendUint16(b, p.RemoteLID)
	b = append(b, p.LocalGID[:]...)
	b = append(b, p.RemoteGID[:]...)
	b = binary.BigEndian.AppendUint32(b, p.FlowLabel<<12|uint32(p.Rate&0x3f))
	return append(b, p.TrafficClass, p.HopLimit, p.SL<<4|bit(p.SubnetLocal, 3), p.ACKTimeout<<3)
}
