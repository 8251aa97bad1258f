// SPDX-License-Identifier: BSD-2-Clause

package mem

import "verbena/ib"

// A keyEntry has the memory and the rights of one key. It is immutable once it is in its
// slot.
type keyEntry struct {
	key    uint32
	pd     PD
	access ib.Access
	window bool   // no rights by LKey
	null   bool   // discards what is written to it: see RegisterNull
	strict bool   // on-demand paging: bytes for memory that is not mapped are an error
	qpn    uint32 // anyQP, or the queue pair a type 2 window is tied to

	base   uint64 // address of the first byte, as requests give it
	length uint64 // bytes; base+length-1 does not overflow

	hole extent // of offsets inside that it does not grant

	mem  []byte    // the memory, if it is in one piece
	segs []segment // or else its pieces, from offset off for length bytes
	off  uint64

	gate *drainGate
}

// An extent is a range of offsets.
type extent struct{ start, end uint64 }

// anyQP stands for no tie to a queue pair; it is outside the 24 bits of a QPN.
const anyQP = ^uint32(0)

// A segment is one piece of a fast-registered region.
type segment struct {
	end uint64 // offset of the byte after it, from the region's start
	mem []byte // never empty
}

// within reports whether n bytes at va are inside the entry, and their offset. All bytes are inside
// a null region. Neither va+n nor base+length is ever formed: CVE-2016-8636.
func (g *keyEntry) within(va, n uint64) (off uint64, ok bool) {
	off = va - g.base // wraps to a large number below base
	return off, g.length != 0 && off <= g.length && n <= g.length-off &&
		(off >= g.hole.end || off+n <= g.hole.start) || g.null
}

// cover makes g a window's entry over the memory of a region's, from offset off
// for length bytes, which within has allowed.
func (g *keyEntry) cover(of *keyEntry, off, length uint64) {
	g.length, g.gate, g.strict = length, of.gate, of.strict
	if of.segs == nil {
		g.mem = of.mem[off : off+length]
		return
	}
	g.segs, g.off = of.segs, off
}

// span returns the n bytes at offset off, which within has allowed.
func (g *keyEntry) span(off, n uint64) Span {
	if g.segs == nil {
		return Span{mem: g.mem[off : off+n : off+n], g: g, n: int(n)}
	}
	if g.null {
		off = 0 // all its bytes are alike
	}
	off += g.off
	i, at := findSegment(g.segs, off)
	if m := g.segs[i].mem; n <= uint64(len(m))-at {
		return Span{mem: m[at : at+n : at+n], g: g, n: int(n)}
	}
	return Span{g: g, at: off, n: int(n)}
}

// findSegment returns the index of the segment that byte off of the region is
// in, and its place there. The offset just after the last byte, where only a
// span of no bytes can start, is in the last segment.
func findSegment(segs []segment, off uint64) (i int, at uint64) {
	lo, hi := 0, len(segs)-1
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if off < segs[mid].end {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	s := &segs[lo]
	return lo, off - (s.end - uint64(len(s.mem)))
}
