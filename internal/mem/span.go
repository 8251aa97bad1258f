package mem

import "sync/atomic"

// A Span is a piece of registered memory that a key has opened: Len bytes, in
// one piece or several, held so that Deregister waits for Release.
//
// A span lives no longer than one packet or one system call. Offsets count
// from the span's start; the caller has checked them against Len, and going
// beyond it panics. The zero Span has no bytes and needs no Release.
type Span struct {
	mem []byte // all of it; empty if it is in several pieces
	g   *grant // it belongs to
	at  uint64 // where it starts in g.segs, if it is in several pieces
	n   int
}

// pieces reports whether the span is in more than one piece.
func (s *Span) pieces() bool { return s.n != len(s.mem) }

// Len returns the number of bytes.
func (s *Span) Len() int { return s.n }

// Hold takes one more reference; each wants its own Release.
func (s *Span) Hold() {
	if s.g != nil {
		s.g.gate.hold()
	}
}

// Release gives one reference back. After the last the bytes must not be
// touched. Releasing more often than held panics.
func (s *Span) Release() {
	if s.g != nil {
		s.g.gate.release()
	}
}

// CopyIn writes src at offset off.
func (s *Span) CopyIn(off int, src []byte) {
	if !s.pieces() {
		copy(s.mem[off:off+len(src)], src)
		return
	}
	i, p := s.seek(off, len(src))
	for len(src) > 0 {
		n := copy(p, src)
		src = src[n:]
		i++
		if len(src) > 0 {
			p = s.g.segs[i].mem
		}
	}
}

// CopyOut reads len(dst) bytes from offset off.
func (s *Span) CopyOut(off int, dst []byte) {
	if !s.pieces() {
		copy(dst, s.mem[off:off+len(dst)])
		return
	}
	i, p := s.seek(off, len(dst))
	for len(dst) > 0 {
		n := copy(dst, p)
		dst = dst[n:]
		i++
		if len(dst) > 0 {
			p = s.g.segs[i].mem
		}
	}
}

// AppendSlices appends the n bytes from offset off to dst, without copying
// them: one slice for each piece, none for n = 0. They are valid while the
// span is held.
func (s *Span) AppendSlices(dst [][]byte, off, n int) [][]byte {
	if !s.pieces() {
		if n == 0 {
			return dst
		}
		return append(dst, s.mem[off:off+n:off+n])
	}
	i, p := s.seek(off, n)
	for n > 0 {
		k := min(n, len(p))
		dst = append(dst, p[:k:k])
		n -= k
		i++
		if n > 0 {
			p = s.g.segs[i].mem
		}
	}
	return dst
}

// seek returns the segment that offset off is in and its bytes from there on.
func (s *Span) seek(off, n int) (int, []byte) {
	if off < 0 || n < 0 || off > s.n || n > s.n-off {
		panic("mem: outside the span")
	}
	i, within := findSegment(s.g.segs, s.at+uint64(off))
	return i, s.g.segs[i].mem[within:]
}

// Aligned8 reports whether the span is one aligned word of 8 bytes in memory,
// as CompareSwap, FetchAdd and Store8 need it.
func (s *Span) Aligned8() bool {
	return len(s.mem) == 8 && aligned8(s.mem)
}

// CompareSwap stores swap if the word equals cmp and returns what was there,
// atomically towards this device and the CPUs. Values are in host order. The
// span must be Aligned8.
func (s *Span) CompareSwap(cmp, swap uint64) (orig uint64) {
	p := s.word()
	for {
		orig = atomic.LoadUint64(p)
		if orig != cmp || atomic.CompareAndSwapUint64(p, cmp, swap) {
			return orig
		}
	}
}

// FetchAdd adds to the word, modulo 2^64, and returns what was there, as
// CompareSwap does.
func (s *Span) FetchAdd(add uint64) (orig uint64) {
	return atomic.AddUint64(s.word(), add) - add
}

// Store8 writes the word in one piece: ATOMIC WRITE. The span must be
// Aligned8. Bytes from the wire keep their order in memory if v is their
// binary.NativeEndian value.
func (s *Span) Store8(v uint64) { atomic.StoreUint64(s.word(), v) }

func (s *Span) word() *uint64 {
	if !s.Aligned8() {
		panic("mem: atomic on a span that is not an aligned word")
	}
	return word(s.mem)
}
