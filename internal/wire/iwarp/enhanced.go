// SPDX-License-Identifier: BSD-2-Clause

package iwarp

import "encoding/binary"

// Depths of the enhanced set-up are 14 bits.
const (
	MaxDepth = 0x3ffe
	// AnyDepth says that the depths are settled by the applications.
	AnyDepth = 0x3fff

	depthMask = 0x3fff
)

// Enhanced has the parameters that MPA revision 2 negotiates: the RDMA READs that each side serves
// and asks for at a time, and which side speaks first.
//
// Spec: RFC 6581, 7 (enhanced RDMA connection establishment message format).
type Enhanced struct {
	PeerToPeer bool   // A: the initiator's first message is a ready-to-receive
	EmptyFPDU  bool   // B: which may be an FPDU of no bytes
	IRD        uint16 // inbound READs; AnyDepth if not negotiated
	WriteRTR   bool   // C: … an RDMA WRITE of no bytes
	ReadRTR    bool   // D: … an RDMA READ of no bytes
	ORD        uint16 // outbound READs
}

// Bits above the depths.
const (
	enhancedHigh = 1 << 15 // A or C
	enhancedLow  = 1 << 14 // B or D
)

// ParseEnhanced reads the enhanced data from the front of b.
func ParseEnhanced(b []byte) (e Enhanced, rest []byte, ok bool) {
	if len(b) < EnhancedBytes {
		return Enhanced{}, b, false
	}
	ird, ord := binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
	// A B IRD (14)
	e.PeerToPeer, e.EmptyFPDU, e.IRD = ird&enhancedHigh != 0, ird&enhancedLow != 0, ird&depthMask
	// C D ORD (14)
	e.WriteRTR, e.ReadRTR, e.ORD = ord&enhancedHigh != 0, ord&enhancedLow != 0, ord&depthMask
	return e, b[EnhancedBytes:], true
}

// Append appends the 4 bytes of e to b.
func (e Enhanced) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, word(e.PeerToPeer, e.EmptyFPDU, e.IRD))
	return binary.BigEndian.AppendUint16(b, word(e.WriteRTR, e.ReadRTR, e.ORD))
}

func word(high, low bool, depth uint16) uint16 {
	w := depth & depthMask
	if high {
		w |= enhancedHigh
	}
	if low {
		w |= enhancedLow
	}
	return w
}
