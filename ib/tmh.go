// SPDX-License-Identifier: BSD-2-Clause

package ib

import "encoding/binary"

// Sizes of the headers of tag matching.
const (
	TMHBytes = 16
	RVHBytes = 16
	// MaxTMRendezvous is the length of the longest message that announces a rendezvous. It is one
	// packet of any path MTU.
	MaxTMRendezvous = 256
)

// TMOp is the operation of a message of tag matching.
type TMOp uint8

// Operations of tag matching.
const (
	TMNoTag      TMOp = iota // it has no tag; nothing but the operation needs to be there
	TMRendezvous             // the receiver READs the data that the RVH names
	TMFin                    // the data of a rendezvous was read
	TMEager                  // the data follows
)

// TMH is the tag matching header, with which each message to a queue that matches tags begins:
// ibv_tmh. A message without a tag needs only the first byte, 0.
//
// Source: rdma-core, libibverbs/tm_types.h, struct ibv_tmh.
type TMH struct {
	Op     TMOp
	AppCtx uint32 // the sender's data: TMInfo.Priv
	Tag    uint64
}

// ParseTMH reads a TMH from the front of b.
func ParseTMH(b []byte) (h TMH, rest []byte, ok bool) {
	if len(b) < TMHBytes {
		return TMH{}, b, false
	}
	h.Op = TMOp(b[0]) // three reserved bytes follow
	h.AppCtx = binary.BigEndian.Uint32(b[4:])
	h.Tag = binary.BigEndian.Uint64(b[8:])
	return h, b[TMHBytes:], true
}

// Append appends the 16 bytes of h to b.
func (h TMH) Append(b []byte) []byte {
	b = append(b, byte(h.Op), 0, 0, 0)
	b = binary.BigEndian.AppendUint32(b, h.AppCtx)
	return binary.BigEndian.AppendUint64(b, h.Tag)
}

// RVH is the rendezvous header: where the data of the message is. It follows the TMH: ibv_rvh.
//
// Source: rdma-core, libibverbs/tm_types.h, struct ibv_rvh.
type RVH struct {
	VA     uint64
	RKey   RKey
	Length uint32
}

// ParseRVH reads an RVH from the front of b.
func ParseRVH(b []byte) (h RVH, rest []byte, ok bool) {
	if len(b) < RVHBytes {
		return RVH{}, b, false
	}
	h.VA = binary.BigEndian.Uint64(b)
	h.RKey = RKey(binary.BigEndian.Uint32(b[8:]))
	h.Length = binary.BigEndian.Uint32(b[12:])
	return h, b[RVHBytes:], true
}

// Append appends the 16 bytes of h to b.
func (h RVH) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, h.VA)
	b = binary.BigEndian.AppendUint32(b, uint32(h.RKey))
	return binary.BigEndian.AppendUint32(b, h.Length)
}
