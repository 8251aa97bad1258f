package ntb

import (
	"encoding/binary"

	"verbena/ib"
)

// Sizes of a WQE.
const (
	WQEBytes       = 128
	wqeHeaderBytes = 64
	MaxInline      = WQEBytes - wqeHeaderBytes
)

// WQEOp is what a work request does there.
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

var wqeOpNames = [numWQEOps]string{"none", "SEND", "SEND_IMM", "SEND_INV", "WRITE", "WRITE_IMM", "READ", "CMP_SWAP", "FETCH_ADD"}

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
	WQESolicited                      // wakes who waits for solicited events
	WQEPlaced                         // the bytes are in place already: the region lies in the window

	wqeKnownFlags = 1<<iota - 1
)

// A WQE is one piece of a message: of a READ, one piece of what is asked for.
type WQE struct {
	Op         WQEOp
	Flags      WQEFlags
	Index      Index
	Length     uint32 // of the message
	Offset     uint32 // of the piece in it
	Bytes      uint32 // of the piece
	Imm        uint32 // immediate data, or the key to invalidate
	Key        ib.RKey
	Addr       uint64 // WRITE, READ, atomics: of the message
	DataAt     uint64 // SEND, WRITE: where the piece lies in the owner's window; READ: where to bring it in the writer's
	CompareAdd uint64
	Swap       uint64
	Inline     [MaxInline]byte // pieces of at most MaxInline bytes of a SEND or WRITE
}

// Parse reads a WQE. It checks what can be checked without knowing more than
// the WQE: operation, flags, and that the piece is one of the message.
func (w *WQE) Parse(b []byte) (ok bool) {
	if len(b) < WQEBytes {
		return false
	}
	w.Op, w.Flags = WQEOp(b[0]), WQEFlags(b[1])
	// reserved (16)
	w.Index = Index(binary.LittleEndian.Uint32(b[4:]))
	w.Length = binary.LittleEndian.Uint32(b[8:])
	w.Offset = binary.LittleEndian.Uint32(b[12:])
	w.Bytes = binary.LittleEndian.Uint32(b[16:])
	w.Imm = binary.LittleEndian.Uint32(b[20:])
	w.Key = ib.RKey(binary.LittleEndian.Uint32(b[24:]))
	// reserved (32)
	w.Addr = binary.LittleEndian.Uint64(b[32:])
	w.DataAt = binary.LittleEndian.Uint64(b[40:])
	w.CompareAdd = binary.LittleEndian.Uint64(b[48:])
	w.Swap = binary.LittleEndian.Uint64(b[56:])
	copy(w.Inline[:], b[wqeHeaderBytes:])
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

// Used is how many of the bytes of w mean something. What lies behind them may be
// left as it is.
func (w *WQE) Used() int {
	if w.IsInline() {
		return wqeHeaderBytes + int(w.Bytes)
	}
	return wqeHeaderBytes
}

// IsInline reports whether the bytes of the piece are in the WQE.
func (w *WQE) IsInline() bool {
	return w.Bytes <= MaxInline && w.Flags&WQEPlaced == 0 && (w.Op.IsSend() || w.Op.IsWrite())
}

// Append appends the bytes of w to b.
func (w *WQE) Append(b []byte) []byte {
	b = append(b, byte(w.Op), byte(w.Flags), 0, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(w.Index))
	b = binary.LittleEndian.AppendUint32(b, w.Length)
	b = binary.LittleEndian.AppendUint32(b, w.Offset)
	b = binary.LittleEndian.AppendUint32(b, w.Bytes)
	b = binary.LittleEndian.AppendUint32(b, w.Imm)
	b = binary.LittleEndian.AppendUint32(b, uint32(w.Key))
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint64(b, w.Addr)
	b = binary.LittleEndian.AppendUint64(b, w.DataAt)
	b = binary.LittleEndian.AppendUint64(b, w.CompareAdd)
	b = binary.LittleEndian.AppendUint64(b, w.Swap)
	return append(b, w.Inline[:]...)
}
