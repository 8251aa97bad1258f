// SPDX-License-Identifier: BSD-2-Clause

package channel

import (
	"encoding/binary"
	"errors"

	"verbena/internal/mem"
	"verbena/internal/ntb/window"
	wire "verbena/internal/wire/ntb"
)

// Errors of carrying out a batch.
var (
	ErrOutside = errors.New("ntb: a write outside the peer's window")
	ErrFault   = errors.New("ntb: memory to be sent is not mapped any more")
)

// A Batch is a list of writes into the peer's window, to be carried out in
// order. Memory of spans is held until Reset.
type Batch struct {
	ops   []op
	bytes []byte
	spans []mem.Span
	rung  bool
}

// op is one write. Words lie in bytes, little-endian, like copies.
type op struct {
	to    uint64
	n     int
	at    int // in bytes,
	spans int // or else in so many spans
	word  bool
}

// room is the capacity that a batch has from the start.
const room = 16 << 10

// NewBatch returns an empty batch.
func NewBatch() *Batch { return &Batch{bytes: make([]byte, 0, room), ops: make([]op, 0, 64)} }

// Len returns the number of writes.
func (b *Batch) Len() int { return len(b.ops) }

// Rung reports whether the batch ends with a signal: the peer is to be woken if
// it sleeps.
func (b *Batch) Rung() bool { return b.rung }

// Reset empties the batch and lets its memory go.
func (b *Batch) Reset() {
	for i := range b.spans {
		b.spans[i].Release()
	}
	clear(b.spans)
	b.ops, b.bytes, b.spans, b.rung = b.ops[:0], b.bytes[:0], b.spans[:0], false
}

// Word4 writes a word in one piece.
func (b *Batch) Word4(to uint64, v uint32) {
	b.ops = append(b.ops, op{to: to, n: 4, at: len(b.bytes), word: true})
	b.bytes = binary.LittleEndian.AppendUint32(b.bytes, v)
}

// Word8 writes a word in one piece.
func (b *Batch) Word8(to uint64, v uint64) {
	b.ops = append(b.ops, op{to: to, n: 8, at: len(b.bytes), word: true})
	b.bytes = binary.LittleEndian.AppendUint64(b.bytes, v)
}

// Copy writes p. The batch takes a copy of it.
func (b *Batch) Copy(to uint64, p []byte) {
	b.ops = append(b.ops, op{to: to, n: len(p), at: len(b.bytes)})
	b.bytes = append(b.bytes, p...)
}

// Append appends f's writes, joined with the write before if that ends where this one begins.
func (b *Batch) Append(to uint64, f func(b []byte) []byte) {
	at := len(b.bytes)
	b.bytes = f(b.bytes)
	n := len(b.bytes) - at
	if k := len(b.ops) - 1; k >= 0 {
		if o := &b.ops[k]; !o.word && o.spans == 0 && o.to+uint64(o.n) == to && o.at+o.n == at {
			o.n += n
			return
		}
	}
	b.ops = append(b.ops, op{to: to, n: n, at: at})
}

// Gather writes the bytes of spans, one after the other; the batch releases
// them.
func (b *Batch) Gather(to uint64, spans []mem.Span) {
	if len(spans) == 0 {
		return
	}
	n := 0
	for i := range spans {
		n += spans[i].Len()
	}
	b.ops = append(b.ops, op{to: to, n: n, spans: len(spans)})
	b.spans = append(b.spans, spans...)
}

// Apply carries the batch out on the peer's window, which is mapped here. It stops at the first
// write that fails. A word at its end is seen before anything is read that comes after. So if two
// nodes each write something and then look, one of them finds it.
func (b *Batch) Apply(w window.Far) error {
	spans := b.spans
	for i := range b.ops {
		o := &b.ops[i]
		switch {
		case o.spans > 0:
			if !w.Contains(o.to, uint64(o.n)) {
				return ErrOutside
			}
			to := o.to
			for k := range spans[:o.spans] {
				s := &spans[k]
				if !w.Gather(to, s, 0, s.Len()) {
					return ErrFault
				}
				to += uint64(s.Len())
			}
			spans = spans[o.spans:]
		case !b.applyBytes(w, o, i == len(b.ops)-1):
			return ErrOutside
		}
	}
	return nil
}

func (b *Batch) applyBytes(w window.Far, o *op, last bool) bool {
	p := b.bytes[o.at : o.at+o.n]
	switch {
	case !o.word:
		return w.CopyIn(o.to, p)
	case !last && o.n == 4:
		return w.Put4(o.to, binary.LittleEndian.Uint32(p))
	case !last:
		return w.Put8(o.to, binary.LittleEndian.Uint64(p))
	case o.n == 4:
		return w.Store4(o.to, binary.LittleEndian.Uint32(p))
	}
	return w.Store8(o.to, binary.LittleEndian.Uint64(p))
}

// AppendStream appends the batch as it goes over TCP: for each write a message
// and its bytes, and for a signal a message of none. With ErrFault dst ends
// before the write that failed.
func (b *Batch) AppendStream(dst []byte) ([]byte, error) {
	spans := b.spans
	for i := range b.ops {
		o := &b.ops[i]
		whole := len(dst)
		dst = wire.Message{To: o.to, Bytes: uint64(o.n)}.Append(dst)
		if o.spans == 0 {
			dst = append(dst, b.bytes[o.at:o.at+o.n]...)
			continue
		}
		for k := range spans[:o.spans] {
			s := &spans[k]
			at := len(dst)
			dst = append(dst, make([]byte, s.Len())...)
			if !s.CopyOut(0, dst[at:]) {
				return dst[:whole], ErrFault
			}
		}
		spans = spans[o.spans:]
	}
	if b.rung {
		dst = wire.Message{}.Append(dst)
	}
	return dst, nil
}

// Take carries out one message of a TCP stream on the window it is for: a word
// in one piece where it is one.
func Take(w *window.Window, m wire.Message, p []byte) bool {
	switch {
	case len(p) == 4 && m.To%4 == 0:
		return w.Store4(m.To, binary.LittleEndian.Uint32(p))
	case len(p) == 8 && m.To%8 == 0:
		return w.Store8(m.To, binary.LittleEndian.Uint64(p))
	}
	return w.CopyIn(m.To, p)
}
