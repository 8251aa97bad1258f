// SPDX-License-Identifier: BSD-2-Clause

package ntb

import (
	"encoding/binary"

	"verbena/ib"
)

// PieceBytes is the size of a Piece.
const PieceBytes = 16

// Piece is a part of a region that lies in its owner's window, which the peer
// may write to directly.
type Piece struct {
	At    uint64
	Bytes uint64
}

// How many pieces fit into a command.
const (
	MaxCreatePieces = (CommandBytes - CommandHeaderBytes - mrCreateBytes) / PieceBytes
	MaxAppendPieces = (CommandBytes - CommandHeaderBytes - mrAppendBytes) / PieceBytes
	MaxPieces       = 1 << 10 // of a region
)

const (
	mrCreateBytes = 40
	mrAppendBytes = 16
)

// A MRCreate announces a region: its key, domain, rights and addresses, how many
// pieces it has in all, and the first of them.
type MRCreate struct {
	Key    ib.RKey
	Access ib.Access
	Addr   uint64
	Length uint64
	Total  uint32
	Count  uint32 // of Pieces that hold
	Domain uint32 // a protection domain of the sender's
	Pieces [MaxCreatePieces]Piece
}

// ParseMRCreate reads a MRCreate behind its header.
func ParseMRCreate(b []byte) (c MRCreate, rest []byte, ok bool) {
	if len(b) < mrCreateBytes {
		return MRCreate{}, b, false
	}
	c = MRCreate{
		Key:    ib.RKey(binary.LittleEndian.Uint32(b)),
		Access: ib.Access(binary.LittleEndian.Uint32(b[4:])),
		Addr:   binary.LittleEndian.Uint64(b[8:]),
		Length: binary.LittleEndian.Uint64(b[16:]),
		Total:  binary.LittleEndian.Uint32(b[24:]),
		Count:  binary.LittleEndian.Uint32(b[28:]),
		Domain: binary.LittleEndian.Uint32(b[32:]),
		// reserved (32)
	}
	if c.Total > MaxPieces || c.Count > c.Total {
		return MRCreate{}, b, false
	}
	rest, ok = parsePieces(c.Pieces[:], c.Count, b[mrCreateBytes:])
	if !ok {
		return MRCreate{}, b, false
	}
	return c, rest, true
}

// Append appends the bytes of c to b.
func (c MRCreate) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(c.Key))
	b = binary.LittleEndian.AppendUint32(b, uint32(c.Access))
	b = binary.LittleEndian.AppendUint64(b, c.Addr)
	b = binary.LittleEndian.AppendUint64(b, c.Length)
	b = binary.LittleEndian.AppendUint32(b, c.Total)
	b = binary.LittleEndian.AppendUint32(b, c.Count)
	b = binary.LittleEndian.AppendUint32(b, c.Domain)
	b = binary.LittleEndian.AppendUint32(b, 0)
	return appendPieces(b, c.Pieces[:c.Count])
}

// A MRAppend brings more pieces of a region, from number Pos on.
type MRAppend struct {
	Key    ib.RKey
	Pos    uint32
	Count  uint32
	Pieces [MaxAppendPieces]Piece
}

// ParseMRAppend reads a MRAppend behind its header.
func ParseMRAppend(b []byte) (c MRAppend, rest []byte, ok bool) {
	if len(b) < mrAppendBytes {
		return MRAppend{}, b, false
	}
	c = MRAppend{
		Key:   ib.RKey(binary.LittleEndian.Uint32(b)),
		Pos:   binary.LittleEndian.Uint32(b[4:]),
		Count: binary.LittleEndian.Uint32(b[8:]),
		// reserved (32)
	}
	rest, ok = parsePieces(c.Pieces[:], c.Count, b[mrAppendBytes:])
	if !ok {
		return MRAppend{}, b, false
	}
	return c, rest, true
}

// Append appends the bytes of c to b.
func (c MRAppend) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(c.Key))
	b = binary.LittleEndian.AppendUint32(b, c.Pos)
	b = binary.LittleEndian.AppendUint32(b, c.Count)
	b = binary.LittleEndian.AppendUint32(b, 0)
	return appendPieces(b, c.Pieces[:c.Count])
}

// A MRDelete takes a region back. Its response says that the peer writes there
// no more.
type MRDelete struct{ Key ib.RKey }

const mrDeleteBytes = 4

// ParseMRDelete reads a MRDelete behind its header.
func ParseMRDelete(b []byte) (c MRDelete, rest []byte, ok bool) {
	if len(b) < mrDeleteBytes {
		return MRDelete{}, b, false
	}
	return MRDelete{ib.RKey(binary.LittleEndian.Uint32(b))}, b[mrDeleteBytes:], true
}

// Append appends the bytes of c to b.
func (c MRDelete) Append(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(b, uint32(c.Key))
}

func parsePieces(dst []Piece, n uint32, b []byte) (rest []byte, ok bool) {
	if uint64(n) > uint64(len(dst)) || uint64(len(b)) < uint64(n)*PieceBytes {
		return b, false
	}
	for i := range dst[:n] {
		dst[i] = Piece{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])}
		b = b[PieceBytes:]
	}
	return b, true
}

func appendPieces(b []byte, list []Piece) []byte {
	for _, p := range list {
		b = binary.LittleEndian.AppendUint64(b, p.At)
		b = binary.LittleEndian.AppendUint64(b, p.Bytes)
	}
	return b
}
