// SPDX-License-Identifier: BSD-2-Clause

package ntb

import (
	"encoding/binary"

	"verbena/ib"
)

// A QPCreate asks for the far half of a queue pair: a WQE ring in the peer's
// window. Completions go to a ring of as many entries in the sender's.
type QPCreate struct {
	QPN    ib.QPN
	Cap    uint32 // entries of both rings, a power of two
	CQEsAt uint64
	DoneAt uint64 // WordsBytes: DoneWord and the words after it
	Bell   uint32 // to ring for completions
	Serial uint32 // tells this far half from others of the same queue pair, in a QPGrant
}

const qpCreateBytes = 32

// The peer reports on a queue pair's requests in words behind one another. All requests before Done
// are done. There are CQEs for those from From on; the others succeeded. While Watched is not 0 the
// peer polls the WQEs themselves, and needs no doorbell.
const (
	DoneWord    = 0  // 8: Position
	FromWord    = 8  // 8: Position
	WatchedWord = 16 // 4
	WordsBytes  = 24
)

// ParseQPCreate reads a QPCreate behind its header.
func ParseQPCreate(b []byte) (c QPCreate, rest []byte, ok bool) {
	if len(b) < qpCreateBytes {
		return QPCreate{}, b, false
	}
	c = QPCreate{
		QPN:    ib.QPN(binary.LittleEndian.Uint32(b)),
		Cap:    binary.LittleEndian.Uint32(b[4:]),
		CQEsAt: binary.LittleEndian.Uint64(b[8:]),
		DoneAt: binary.LittleEndian.Uint64(b[16:]),
		Bell:   binary.LittleEndian.Uint32(b[24:]),
		Serial: binary.LittleEndian.Uint32(b[28:]),
	}
	return c, b[qpCreateBytes:], true
}

// Append appends the bytes of c to b.
func (c QPCreate) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(c.QPN))
	b = binary.LittleEndian.AppendUint32(b, c.Cap)
	b = binary.LittleEndian.AppendUint64(b, c.CQEsAt)
	b = binary.LittleEndian.AppendUint64(b, c.DoneAt)
	b = binary.LittleEndian.AppendUint32(b, c.Bell)
	return binary.LittleEndian.AppendUint32(b, c.Serial)
}

// A QPCreated is the response to QPCreate: where the ring is.
type QPCreated struct {
	WQEsAt uint64
	Bell   uint32 // to ring for requests
}

const qpCreatedBytes = 16

// ParseQPCreated reads a QPCreated behind its header.
func ParseQPCreated(b []byte) (c QPCreated, rest []byte, ok bool) {
	if len(b) < qpCreatedBytes {
		return QPCreated{}, b, false
	}
	return QPCreated{
		WQEsAt: binary.LittleEndian.Uint64(b),
		Bell:   binary.LittleEndian.Uint32(b[8:]),
		// reserved (32)
	}, b[qpCreatedBytes:], true
}

// Append appends the bytes of c to b.
func (c QPCreated) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, c.WQEsAt)
	b = binary.LittleEndian.AppendUint32(b, c.Bell)
	return binary.LittleEndian.AppendUint32(b, 0)
}

// A QPModify says which queue pair of the peer the sender's is connected to, its
// state, and the PSN that its connection begins with: by that the requests of a
// connection are told from those of one before between the same queue pairs.
type QPModify struct {
	QPN   ib.QPN
	Dest  ib.QPN
	State ib.QPState
	PSN   ib.PSN
}

const qpModifyBytes = 16

// ParseQPModify reads a QPModify behind its header.
func ParseQPModify(b []byte) (c QPModify, rest []byte, ok bool) {
	if len(b) < qpModifyBytes {
		return QPModify{}, b, false
	}
	s := binary.LittleEndian.Uint32(b[8:])
	psn := binary.LittleEndian.Uint32(b[12:])
	if s > uint32(ib.QPErr) || psn >= 1<<24 {
		return QPModify{}, b, false
	}
	return QPModify{
		QPN:   ib.QPN(binary.LittleEndian.Uint32(b)),
		Dest:  ib.QPN(binary.LittleEndian.Uint32(b[4:])),
		State: ib.QPState(s),
		PSN:   ib.PSN(psn),
	}, b[qpModifyBytes:], true
}

// Append appends the bytes of c to b.
func (c QPModify) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(c.QPN))
	b = binary.LittleEndian.AppendUint32(b, uint32(c.Dest))
	b = binary.LittleEndian.AppendUint32(b, uint32(c.State))
	return binary.LittleEndian.AppendUint32(b, uint32(c.PSN))
}

// A QPDelete takes the far half of a queue pair away. Its response says that
// the peer neither executes nor answers any more of its requests.
type QPDelete struct{ QPN ib.QPN }

const qpDeleteBytes = 4

// ParseQPDelete reads a QPDelete behind its header.
func ParseQPDelete(b []byte) (c QPDelete, rest []byte, ok bool) {
	if len(b) < qpDeleteBytes {
		return QPDelete{}, b, false
	}
	return QPDelete{ib.QPN(binary.LittleEndian.Uint32(b))}, b[qpDeleteBytes:], true
}

// Append appends the bytes of c to b.
func (c QPDelete) Append(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(b, uint32(c.QPN))
}

// A QPGrant permits WRITEs of a queue pair of the receiver's without a request each, to regions
// that the sender has announced: those of a domain, while Open. Its response says that from then on
// the queue pair goes by it.
type QPGrant struct {
	QPN    ib.QPN // of the receiver's
	Serial uint32 // of its far half
	Domain uint32
	Open   bool
}

const qpGrantBytes = 16

// ParseQPGrant reads a QPGrant behind its header.
func ParseQPGrant(b []byte) (c QPGrant, rest []byte, ok bool) {
	if len(b) < qpGrantBytes {
		return QPGrant{}, b, false
	}
	open := binary.LittleEndian.Uint32(b[12:])
	if open > 1 {
		return QPGrant{}, b, false
	}
	return QPGrant{
		QPN:    ib.QPN(binary.LittleEndian.Uint32(b)),
		Serial: binary.LittleEndian.Uint32(b[4:]),
		Domain: binary.LittleEndian.Uint32(b[8:]),
		Open:   open == 1,
	}, b[qpGrantBytes:], true
}

// Append appends the bytes of c to b.
func (c QPGrant) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(c.QPN))
	b = binary.LittleEndian.AppendUint32(b, c.Serial)
	b = binary.LittleEndian.AppendUint32(b, c.Domain)
	open := uint32(0)
	if c.Open {
		open = 1
	}
	return binary.LittleEndian.AppendUint32(b, open)
}
