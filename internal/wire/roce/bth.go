// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"encoding/binary"

	"verbena/ib"
)

// BTHBytes is the size of a BTH.
const BTHBytes = 12

// Bits of BTH.
const (
	bthSolicited = 1 << 7 // byte 1
	bthMigReq    = 1 << 6
	bthPadShift  = 4
	bthTVerMask  = 0x0f
	bthFECN      = 1 << 7 // byte 4
	bthBECN      = 1 << 6
	bthAckReq    = 1 << 7 // byte 8
	bthSelective = 1 << 6
	bthOvertakes = 1 << 5
	bthUnawaited = 1 << 4
	bthAllRETH   = 1 << 3
)

// DestQPOffset is the offset of the 24 bits of BTH.DestQP in a UDP payload, for
// socket filters that steer by queue pair.
const DestQPOffset = 5

// DestQPOf returns BTH.DestQP of a packet of BTHBytes at least.
func DestQPOf(b []byte) ib.QPN {
	return ib.QPN(binary.BigEndian.Uint32(b[DestQPOffset-1:]) & 0xffffff)
}

// BTH is the base transport header, first in every packet.
//
// Spec: IBTA vol. 1, 9.2 Base transport header.
type BTH struct {
	Opcode    Opcode
	Solicited bool
	MigReq    bool  // 1 as hardware sends it: the path is the migrated one
	Pad       uint8 // 0 to 3 bytes that align the payload to 4
	TVer      uint8 // 4 bits, always 0
	PKey      ib.PKey
	FECN      bool // not sent by RoCEv2, which marks the IP header
	BECN      bool
	DestQP    ib.QPN
	AckReq    bool
	// Selective is a reserved bit, which receivers ignore. By it an end of Verbena says what it is:
	// a requester that it understands SelectiveAcknowledge, a responder that it answers any part
	// of a READ.
	Selective bool
	// Overtakes is another reserved bit, of READ requests between two ends of Verbena: the
	// responder may carry the READ out although it misses requests before it.
	Overtakes bool
	// Unawaited is one of requests with AckReq: the requester's application waits for no completion
	// by the acknowledgement, which may come behind the peer's answer.
	Unawaited bool
	// AllRETH is one of the Middle and Last packets of a WRITE: they have a RETH, as the First
	// has, and so its length. It tells the place of their bytes, and how many are left. In a
	// response it says that the responder reads such packets.
	AllRETH bool
	PSN     ib.PSN
}

// ParseBTH reads a BTH from the front of b.
func ParseBTH(b []byte) (h BTH, rest []byte, ok bool) {
	if len(b) < BTHBytes {
		return BTH{}, b, false
	}
	h.decode(b)
	return h, b[BTHBytes:], true
}

// decode reads the 12 bytes at the front of b.
func (h *BTH) decode(b []byte) {
	_ = b[BTHBytes-1]
	h.Opcode = Opcode(b[0]) // OpCode (8)
	h.Solicited = b[1]&bthSolicited != 0
	h.MigReq = b[1]&bthMigReq != 0
	h.Pad = b[1] >> bthPadShift & 3
	h.TVer = b[1] & bthTVerMask
	h.PKey = ib.PKey(binary.BigEndian.Uint16(b[2:]))
	h.FECN = b[4]&bthFECN != 0 // FECN (1) | BECN (1) | reserved (6)
	h.BECN = b[4]&bthBECN != 0
	h.DestQP = DestQPOf(b)
	h.AckReq = b[8]&bthAckReq != 0 // A (1) | reserved (7)
	h.Selective = b[8]&bthSelective != 0
	h.Overtakes = b[8]&bthOvertakes != 0
	h.Unawaited = b[8]&bthUnawaited != 0
	h.AllRETH = b[8]&bthAllRETH != 0
	h.PSN = ib.NewPSN(binary.BigEndian.Uint32(b[8:]))
}

// Append appends the 12 bytes of h to b.
func (h BTH) Append(b []byte) []byte {
	var flags, ecn, ack uint8
	if h.Solicited {
		flags |= bthSolicited
	}
	if h.MigReq {
		flags |= bthMigReq
	}
	if h.FECN {
		ecn |= bthFECN
	}
	if h.BECN {
		ecn |= bthBECN
	}
	if h.AckReq {
		ack |= bthAckReq
	}
	if h.Selective {
		ack |= bthSelective
	}
	if h.Overtakes {
		ack |= bthOvertakes
	}
	if h.Unawaited {
		ack |= bthUnawaited
	}
	if h.AllRETH {
		ack |= bthAllRETH
	}
	return append(b,
		byte(h.Opcode), flags|h.Pad&3<<bthPadShift|h.TVer&bthTVerMask, byte(h.PKey>>8),
		byte(h.PKey), ecn, byte(h.DestQP>>16), byte(h.DestQP>>8), byte(h.DestQP),
		ack, byte(h.PSN>>16), byte(h.PSN>>8), byte(h.PSN))
}
