// SPDX-License-Identifier: BSD-2-Clause

package ntb

import (
	"encoding/binary"

	"verbena/ib"
)

// Sizes of a WQE. It is two cache lines; the second has the fields that do not fit the first:
//
//	0   op, flags, done           32  address (not of SENDs)     64  bytes of a piece of at most
//	8   length, offset, bytes     40  place of the bytes             MaxInline, or the value that
//	20  immediate, key            48  operand of an atomic           a compare-and-swap stores
//	                              56  mark
//
// The few bytes of a short piece lie in the first line, from 32 on of a SEND and 40 of a WRITE. The
// mark is written last: a reader that sees it sees the WQE.
const (
	WQEBytes  = 128
	LineBytes = 64
	MarkAt    = 56
	MaxInline = WQEBytes - LineBytes

	MaxShortSend  = MarkAt - sendAt
	MaxShortWrite = MarkAt - writeAt

	sendAt, writeAt = 32, 40
)

// WQEOp names the operation of a work request.
type WQEOp uint8

// Operations.
const (
	WQESend WQEOp = 1 + iota
	WQESendImm
	WQESendInv
	WQEWrite
	WQEWriteImm
	WQERead
	WQECmpSwap
	WQEFetchAdd

	numWQEOps
)

var wqeOpNames = [numWQEOps]string{"none", "SEND", "SEND_IMM", "SEND_INV", "WRITE", "WRITE_IMM",
	"READ", "CMP_SWAP", "FETCH_ADD"}

func (o WQEOp) String() string {
	if o < numWQEOps {
		return wqeOpNames[o]
	}
	return "unknown"
}

// IsSend reports whether the operation fills a receive.
func (o WQEOp) IsSend() bool { return o >= WQESend && o <= WQESendInv }

// IsWrite reports whether it brings data to an address of the peer.
func (o WQEOp) IsWrite() bool { return o == WQEWrite || o == WQEWriteImm }

// IsAtomic reports whether it changes a word.
func (o WQEOp) IsAtomic() bool { return o == WQECmpSwap || o == WQEFetchAdd }

// WQEFlags say more.
type WQEFlags uint8

// Flags.
const (
	WQEFirst     WQEFlags = 1 << iota // first piece of its message
	WQELast                           // last piece
	WQESolicited                      // wakes waiters for solicited events
	// the bytes are in place already: the region lies in the window
	WQEPlaced
	WQEDone // Done holds

	wqeKnownFlags = 1<<iota - 1
)

// A WQE is one piece of a message, or of the memory that a READ asks for.
type WQE struct {
	Op    WQEOp
	Flags WQEFlags
	Mark  Position // which one it is
	// WQEDone: the writer has done all that the reader's queue pair has asked for before this
	Done   Index
	Length uint32 // of the message
	Offset uint32 // of the piece in it
	Bytes  uint32 // of the piece
	Imm    uint32 // immediate data, or the key to invalidate
	Key    ib.RKey
	Addr   uint64 // WRITE, READ, atomics: of the message
	// SEND, WRITE: where the piece lies in the owner's window; READ: where to bring it in the
	// writer's
	DataAt     uint64
	CompareAdd uint64
	Swap       uint64
	Inline     [MaxInline]byte // pieces of at most MaxInline bytes of a SEND or WRITE
}

// Parse reads a WQE. It makes the checks that need nothing but the WQE: operation, flags, and that
// the piece is one of the message.
func (w *WQE) Parse(b []byte) (ok bool) {
	if len(b) < WQEBytes {
		return false
	}
	*w = WQE{}
	w.parseHeader(b)
	if !w.valid() {
		return false
	}
	switch {
	case w.Op.IsAtomic():
		w.CompareAdd = binary.LittleEndian.Uint64(b[48:])
		w.Swap = binary.LittleEndian.Uint64(b[LineBytes:])
	case w.IsInline():
		copy(w.Inline[:w.Bytes], b[w.inlineAt():])
	default:
		w.DataAt = binary.LittleEndian.Uint64(b[40:])
	}
	if !w.Op.IsSend() {
		w.Addr = binary.LittleEndian.Uint64(b[32:])
	}
	return true
}

// ParseLine reads a whole short SEND in one line, and nothing else. It sets MaxShortSend bytes of
// Inline.
func (w *WQE) ParseLine(b *[LineBytes]byte) (ok bool) {
	w.parseHeader(b[:])
	for i := 0; i < MaxShortSend; i += 8 { // whole words, as PutLine
		binary.NativeEndian.PutUint64(w.Inline[i:], binary.NativeEndian.Uint64(b[sendAt+i:]))
	}
	return w.Op.IsSend() && w.Length <= MaxShortSend && w.first() && w.last() && w.valid()
}

func (w *WQE) parseHeader(b []byte) {
	_ = b[LineBytes-1]
	w.Op, w.Flags = WQEOp(b[0]), WQEFlags(b[1])
	// reserved (16)
	w.Done = Index(binary.LittleEndian.Uint32(b[4:]))
	w.Length = binary.LittleEndian.Uint32(b[8:])
	w.Offset = binary.LittleEndian.Uint32(b[12:])
	w.Bytes = binary.LittleEndian.Uint32(b[16:])
	w.Imm = binary.LittleEndian.Uint32(b[20:])
	w.Key = ib.RKey(binary.LittleEndian.Uint32(b[24:]))
	// reserved (32)
	w.Mark = Position(binary.LittleEndian.Uint64(b[MarkAt:]))
}

func (w *WQE) valid() bool {
	switch {
	case w.Op == 0 || w.Op >= numWQEOps, w.Flags&^wqeKnownFlags != 0, w.Length > ib.MaxMessage:
		return false
	case w.Flags&WQEPlaced != 0 && !w.Op.IsWrite():
		return false
	case w.Op.IsAtomic():
		return w.Length == 8 && w.Offset == 0 && w.Bytes == 8 && w.first() && w.last()
	case w.Offset > w.Length || w.Bytes > w.Length-w.Offset:
		return false
	case w.first() != (w.Offset == 0), w.last() != (w.Bytes == w.Length-w.Offset):
		return false
	}
	return w.Bytes > 0 || w.Length == 0
}

func (w *WQE) first() bool { return w.Flags&WQEFirst != 0 }
func (w *WQE) last() bool  { return w.Flags&WQELast != 0 }

// Used returns the number of bytes of w that mean something. Those behind them may be
// left as they are.
func (w *WQE) Used() int {
	switch {
	case w.Op.IsAtomic():
		return LineBytes + 8
	case w.IsInline() && w.inlineAt() == LineBytes:
		return LineBytes + int(w.Bytes)
	}
	return LineBytes
}

// IsInline reports whether the bytes of the piece are in the WQE.
func (w *WQE) IsInline() bool {
	return w.Bytes <= MaxInline && w.Flags&WQEPlaced == 0 && (w.Op.IsSend() || w.Op.IsWrite())
}

// inlineAt returns where in the WQE.
func (w *WQE) inlineAt() int {
	switch {
	case w.Op.IsSend() && w.Bytes <= MaxShortSend:
		return sendAt
	case w.Op.IsWrite() && w.Bytes <= MaxShortWrite:
		return writeAt
	}
	return LineBytes
}

// Append appends the bytes of w to b.
func (w *WQE) Append(b []byte) []byte {
	at := len(b)
	var zero [WQEBytes]byte
	b = append(b, zero[:]...)
	w.put(b[at:])
	return b
}

// PutLine is Append, to one line, of a WQE that ParseLine reads. It takes MaxShortSend bytes of
// Inline, those behind the piece too. It stores whole words: the writer of the line reads it by
// these, and the processor cannot forward parts of a word.
func (w *WQE) PutLine(b *[LineBytes]byte) {
	binary.LittleEndian.PutUint64(b[0:], uint64(w.Op)|uint64(w.Flags)<<8|uint64(w.Done)<<32)
	binary.LittleEndian.PutUint64(b[8:], uint64(w.Length)|uint64(w.Offset)<<32)
	binary.LittleEndian.PutUint64(b[16:], uint64(w.Bytes)|uint64(w.Imm)<<32)
	binary.LittleEndian.PutUint64(b[24:], uint64(w.Key))
	binary.LittleEndian.PutUint64(b[sendAt:], binary.LittleEndian.Uint64(w.Inline[0:]))
	binary.LittleEndian.PutUint64(b[sendAt+8:], binary.LittleEndian.Uint64(w.Inline[8:]))
	binary.LittleEndian.PutUint64(b[sendAt+16:], binary.LittleEndian.Uint64(w.Inline[16:]))
	binary.LittleEndian.PutUint64(b[MarkAt:], uint64(w.Mark))
}

// put writes w over zeros.
func (w *WQE) put(b []byte) {
	_ = b[LineBytes-1]
	b[0], b[1] = byte(w.Op), byte(w.Flags)
	binary.LittleEndian.PutUint32(b[4:], uint32(w.Done))
	binary.LittleEndian.PutUint32(b[8:], w.Length)
	binary.LittleEndian.PutUint32(b[12:], w.Offset)
	binary.LittleEndian.PutUint32(b[16:], w.Bytes)
	binary.LittleEndian.PutUint32(b[20:], w.Imm)
	binary.LittleEndian.PutUint32(b[24:], uint32(w.Key))
	if !w.Op.IsSend() {
		binary.LittleEndian.PutUint64(b[32:], w.Addr)
	}
	switch {
	case w.Op.IsAtomic():
		binary.LittleEndian.PutUint64(b[48:], w.CompareAdd)
		binary.LittleEndian.PutUint64(b[LineBytes:], w.Swap)
	case w.IsInline():
		copy(b[w.inlineAt():], w.Inline[:w.Bytes])
	default:
		binary.LittleEndian.PutUint64(b[40:], w.DataAt)
	}
	binary.LittleEndian.PutUint64(b[MarkAt:], uint64(w.Mark))
}
