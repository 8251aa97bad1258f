// SPDX-License-Identifier: BSD-2-Clause

package iwarp

import (
	"encoding/binary"
	"fmt"

	"verbena/ib"
)

// Sizes of the atomic headers.
const (
	AtomicRequestBytes  = 52
	AtomicResponseBytes = 12
)

// AtomicOp is an atomic operation.
//
// Spec: RFC 7306, 5 (atomic operations).
type AtomicOp uint8

// Atomic operations.
const (
	FetchAdd     AtomicOp = 0
	UrdmaCmpSwap AtomicOp = 1 // urdma's CmpSwap; over TRP only
	CmpSwap      AtomicOp = 2

	atomicOpMask = 15
)

func (o AtomicOp) String() string {
	switch o {
	case FetchAdd:
		return "FetchAdd"
	case CmpSwap:
		return "CmpSwap"
	case UrdmaCmpSwap:
		return "CmpSwap (urdma)"
	}
	return fmt.Sprintf("Unknown %d", uint8(o))
}

// AtomicReq asks for an atomic operation on the 8 bytes at TO.
//
// Spec: RFC 7306, 4 (atomic request header).
type AtomicReq struct {
	Op      AtomicOp
	ID      uint32 // that the response repeats
	STag    ib.RKey
	TO      uint64
	AddSwap uint64
	// FetchAdd: a carry out of these bits is lost; CmpSwap: the bits to be replaced
	AddSwapMask uint64
	Compare     uint64
	CompareMask uint64 // the bits to be compared
}

// ParseAtomicReq reads an atomic request header from the front of b.
func ParseAtomicReq(b []byte) (r AtomicReq, rest []byte, ok bool) {
	if len(b) < AtomicRequestBytes {
		return AtomicReq{}, b, false
	}
	r.Op = AtomicOp(b[3] & atomicOpMask) // reserved (28), AOpCode (4)
	r.ID = binary.BigEndian.Uint32(b[4:])
	r.STag = ib.RKey(binary.BigEndian.Uint32(b[8:]))
	r.TO = binary.BigEndian.Uint64(b[12:])
	r.AddSwap = binary.BigEndian.Uint64(b[20:])
	r.AddSwapMask = binary.BigEndian.Uint64(b[28:])
	r.Compare = binary.BigEndian.Uint64(b[36:])
	r.CompareMask = binary.BigEndian.Uint64(b[44:])
	return r, b[AtomicRequestBytes:], true
}

// Append appends the 52 bytes of r to b.
func (r AtomicReq) Append(b []byte) []byte {
	b = append(b, 0, 0, 0, byte(r.Op)&atomicOpMask)
	b = binary.BigEndian.AppendUint32(b, r.ID)
	b = binary.BigEndian.AppendUint32(b, uint32(r.STag))
	b = binary.BigEndian.AppendUint64(b, r.TO)
	b = binary.BigEndian.AppendUint64(b, r.AddSwap)
	b = binary.BigEndian.AppendUint64(b, r.AddSwapMask)
	b = binary.BigEndian.AppendUint64(b, r.Compare)
	return binary.BigEndian.AppendUint64(b, r.CompareMask)
}

// Apply returns the new value of 8 bytes whose value was orig.
//
// Spec: RFC 7306, 5.1 (FetchAdd with its field boundary mask), 5.3 (CmpSwap).
func (r AtomicReq) Apply(orig uint64) uint64 {
	if r.Op == CmpSwap {
		if (orig^r.Compare)&r.CompareMask != 0 {
			return orig
		}
		return orig&^r.AddSwapMask | r.AddSwap&r.AddSwapMask
	}
	// A mask bit is the top bit of a field: add without the top bits, which
	// then cannot carry, and put them in by exclusive or.
	low := ^r.AddSwapMask
	return (orig&low + r.AddSwap&low) ^ (orig^r.AddSwap)&r.AddSwapMask
}

// AtomicResp returns the old value.
//
// Spec: RFC 7306, 4 (atomic response header).
type AtomicResp struct {
	ID   uint32 // of the request
	Orig uint64
}

// ParseAtomicResp reads an atomic response header from the front of b.
func ParseAtomicResp(b []byte) (r AtomicResp, rest []byte, ok bool) {
	if len(b) < AtomicResponseBytes {
		return AtomicResp{}, b, false
	}
	r.ID, r.Orig = binary.BigEndian.Uint32(b), binary.BigEndian.Uint64(b[4:])
	return r, b[AtomicResponseBytes:], true
}

// Append appends the 12 bytes of r to b.
func (r AtomicResp) Append(b []byte) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(b, r.ID), r.Orig)
}
