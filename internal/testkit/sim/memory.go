// SPDX-License-Identifier: BSD-2-Clause

package sim

import (
	"bytes"

	"verbena/ib"
	"verbena/internal/mem"
)

// An arena is the memory of one endpoint, cut into areas with a key each.
type arena struct {
	bytes []byte
	start []byte // as everything was at the beginning
	next  int
}

// An area is a part of an arena that one key opens; pieces of it are handed
// out, each once, with bytes between them that nothing may change.
type area struct {
	arena *arena
	off   int
	n     int
	next  int
	mr    *mem.Region
}

// piece is n bytes of an area.
type piece struct {
	area *area
	off  int // in the arena
	n    int
}

const (
	areaBytes  = 48 << 10
	guardBytes = 24 // between pieces and areas; a multiple of 8
	virtual    = 0x4000_0000
)

// newArea registers the next part of the arena.
func (a *arena) newArea(t *mem.Table, access ib.Access) *area {
	r := &area{arena: a, off: a.next + guardBytes, n: areaBytes}
	a.next = r.off + r.n
	mr, err := t.Register(domain, a.bytes[r.off:r.off+r.n], virtual+uint64(r.off), access)
	if err != nil {
		panic(err)
	}
	r.mr = mr
	return r
}

// take hands out n bytes, 8-byte aligned; ok is false if there is no room.
func (a *area) take(n int) (p piece, ok bool) {
	off := a.next + guardBytes
	if off+n > a.n {
		return piece{}, false
	}
	a.next = (off + n + 7) &^ 7
	return piece{a, a.off + off, n}, true
}

func (p piece) bytes() []byte { return p.area.arena.bytes[p.off : p.off+p.n] }
func (p piece) start() []byte { return p.area.arena.start[p.off : p.off+p.n] }
func (p piece) addr() uint64  { return virtual + uint64(p.off) }

// part returns the bytes of p from off to end.
func (p piece) part(off, end int) piece { return piece{p.area, p.off + off, end - off} }

func (p piece) sge() ib.SGE {
	return ib.SGE{Addr: p.addr(), Length: uint32(p.n), LKey: p.area.mr.LKey()}
}

// unchanged reports whether the piece is as it was at the beginning.
func (p piece) unchanged() bool { return bytes.Equal(p.bytes(), p.start()) }
