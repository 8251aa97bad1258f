// SPDX-License-Identifier: BSD-2-Clause

package mpa

import (
	"verbena/internal/mem"
	wire "verbena/internal/wire/iwarp"
)

// A Payload follows the headers of an ULPDU: bytes, or registered memory that the burst points at.
type Payload struct {
	Bytes []byte     // copied
	Spans []mem.Span // or these, held: a caller that takes the payload takes the hold
	Size  int        // of either
	// Volatile says that the memory may change before it is written, as that of
	// a READ does, which the peer may write to: under a CRC it is copied.
	Volatile bool
}

// Verdict of Framer.Append.
type Verdict uint8

// Verdicts.
const (
	Added Verdict = iota
	Full          // it does not fit this burst
	Fault         // the payload's memory is not mapped any more
)

// A Framer makes FPDUs of ULPDUs.
//
// Spec: RFC 5044, 4.3 to 4.5.
type Framer struct {
	// immutable once the stream flows
	CRC     bool
	Markers bool // the peer asked for them

	pos   uint64 // in the stream
	start uint64 // pos of the length of the FPDU being made
}

// Append adds an FPDU to b whose ULPDU is head and then payload. Unless it says
// Added, b is as before and the payload's spans are the caller's still.
func (f *Framer) Append(b *Burst, head []byte, p *Payload) Verdict {
	n := len(head) + p.Size
	copied := p.Spans == nil || f.Markers || p.Size <= copyBelow || p.Volatile && f.CRC
	need := wire.FPDUBytes(len(head)) + wire.MarkerBytes
	if copied {
		need = wire.FPDUBytes(n)
		need += wire.MarkerBytes * (need/(wire.MarkerInterval-wire.MarkerBytes) + 1)
	}
	if b.n == MaxFPDUs || b.n > 0 && b.bytes+n > MaxBurstBytes ||
		len(b.arena)+need > cap(b.arena) ||
		len(b.iov)+len(p.Spans)*maxPieces+3 > maxIov && b.n > 0 {
		return Full
	}
	before, pos := *b, f.pos
	ok := f.build(b, head, p, copied)
	if !ok {
		b.undo(before)
		f.pos = pos
		return Fault
	}
	b.n++
	b.bytes += int(f.pos - pos)
	if copied {
		for i := range p.Spans {
			p.Spans[i].Release()
		}
	} else {
		b.held = append(b.held, p.Spans...)
	}
	return Added
}

// maxPieces is the number of list entries reserved for a span. Fast-registered memory may need
// more; the list has room to grow for it.
const maxPieces = 4

// build writes the FPDU. It reports false if memory is gone.
func (f *Framer) build(b *Burst, head []byte, p *Payload, copied bool) bool {
	n := len(head) + p.Size
	from := len(b.arena) // of the part that is not in the CRC yet
	f.start = f.pos
	if f.Markers && f.pos%wire.MarkerInterval == 0 {
		f.marker(b, 0)
		f.start = f.pos
	}
	var word [wire.LengthBytes]byte
	f.write(b, wire.AppendLength(word[:0], n))
	f.write(b, head)
	sum, ok := uint32(0), true
	switch {
	case p.Spans == nil:
		f.write(b, p.Bytes)
	case copied:
		ok = f.copy(b, p)
	default:
		if f.CRC {
			sum = wire.UpdateCRC(sum, b.arena[from:])
		}
		from = len(b.arena)
		b.flush()
		sum, ok = f.point(b, p, sum)
	}
	f.write(b, zeros[:wire.PadBytes(n)])
	if f.Markers && f.pos%wire.MarkerInterval == 0 { // before the CRC, and in it
		f.marker(b, f.pos-f.start)
	}
	if f.CRC {
		sum = wire.UpdateCRC(sum, b.arena[from:])
	} else {
		sum = 0
	}
	b.arena = wire.AppendCRC(b.arena, sum)
	f.pos += wire.CRCBytes
	return ok
}

var zeros [3]byte

// point puts the payload's memory into the scatter list.
func (f *Framer) point(b *Burst, p *Payload, sum uint32) (uint32, bool) {
	first := len(b.iov)
	for i := range p.Spans {
		b.iov = p.Spans[i].AppendSlices(b.iov, 0, p.Spans[i].Len())
	}
	f.pos += uint64(p.Size)
	for i, ok := first, true; f.CRC && i < len(b.iov); i++ {
		if sum, ok = mem.Sum(sum, b.iov[i], wire.UpdateCRC); !ok {
			return sum, false
		}
	}
	return sum, true
}

// copy writes the payload's memory, with the markers that fall into it.
func (f *Framer) copy(b *Burst, p *Payload) bool {
	for i := range p.Spans {
		s := &p.Spans[i]
		for off := 0; off < s.Len(); {
			k := f.room(b, s.Len()-off)
			at := len(b.arena)
			b.arena = b.arena[:at+k]
			if !s.CopyOut(off, b.arena[at:]) {
				return false
			}
			f.pos += uint64(k)
			off += k
		}
	}
	return true
}

// write writes bytes, with the markers that fall into them.
func (f *Framer) write(b *Burst, p []byte) {
	for len(p) > 0 {
		k := f.room(b, len(p))
		b.arena = append(b.arena, p[:k]...)
		f.pos += uint64(k)
		p = p[k:]
	}
}

// room writes the marker that is due, if one is, and returns how many of n
// bytes may follow.
func (f *Framer) room(b *Burst, n int) int {
	if !f.Markers {
		return n
	}
	if f.pos%wire.MarkerInterval == 0 {
		f.marker(b, f.pos-f.start)
	}
	return min(n, wire.MarkerInterval-int(f.pos%wire.MarkerInterval))
}

func (f *Framer) marker(b *Burst, back uint64) {
	b.arena = wire.Marker{FPDUPtr: uint16(back)}.Append(b.arena)
	f.pos += wire.MarkerBytes
}
