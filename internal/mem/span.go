// SPDX-License-Identifier: BSD-2-Clause

package mem

// A Span is a piece of registered memory that a key has opened: Len bytes, in
// one piece or several, held so that Deregister waits for Release.
//
// A span lives no longer than one packet or one system call. Offsets count
// from the span's start; the caller has checked them against Len, and going
// beyond it panics. The zero Span has no bytes and needs no Release.
type Span struct {
	mem []byte    // all of it; empty if it is in several pieces
	g   *keyEntry // it belongs to
	at  uint64    // where it starts in g.segs, if it is in several pieces
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

// CopyIn writes src at offset off; bytes for memory that is not mapped any more go nowhere. It
// returns false if the memory is mapped and may not be written, or is not mapped and of
// AccessOnDemand.
func (s *Span) CopyIn(off int, src []byte) (ok bool) {
	if !s.pieces() {
		dst := s.mem[off : off+len(src)]
		return s.g == nil || s.g.copyIn(dst, src)
	}
	i, p := s.seek(off, len(src))
	for ok = true; ok && len(src) > 0; {
		n := min(len(p), len(src))
		ok = s.g.copyIn(p, src[:n])
		src = src[n:]
		i++
		if len(src) > 0 {
			p = s.g.segs[i].mem
		}
	}
	return ok
}

// CopyInEach writes n pieces of src, each so many bytes long and stride apart, one after the other
// from the start of the span. It returns how many it wrote before one that CopyIn does not.
func (s *Span) CopyInEach(src []byte, each, stride, n int) int {
	if !s.pieces() && !s.Null() && copyEach(s.mem[:n*each], src, each, stride) {
		return n
	}
	for i := range n {
		if !s.CopyIn(i*each, src[i*stride:i*stride+each]) {
			return i
		}
	}
	return n
}

// CopyOut reads len(dst) bytes from offset off. It returns false if the memory
// is not mapped any more.
func (s *Span) CopyOut(off int, dst []byte) (ok bool) { return s.out(off, dst, false) }

// StreamOut is CopyOut by Stream.
func (s *Span) StreamOut(off int, dst []byte) (ok bool) { return s.out(off, dst, true) }

func (s *Span) out(off int, dst []byte, stream bool) (ok bool) {
	if !s.pieces() {
		return copyBy(stream, dst, s.mem[off:off+len(dst)])
	}
	i, p := s.seek(off, len(dst))
	for ok = true; ok && len(dst) > 0; {
		n := min(len(p), len(dst))
		ok = copyBy(stream, dst, p[:n])
		dst = dst[n:]
		i++
		if len(dst) > 0 {
			p = s.g.segs[i].mem
		}
	}
	return ok
}

// copyBy is a branch because the arguments of a function value are allocated.
func copyBy(stream bool, dst, src []byte) bool {
	if stream {
		return Stream(dst, src)
	}
	return Copy(dst, src)
}

// AppendSlices appends the n bytes from offset off to dst, without copying them: one slice for each
// piece, none for n = 0. They are valid while the span is held; readers use Sum or leave it to the
// kernel.
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

// Piece returns the bytes of the span up to the end of its first piece, as AppendSlices does.
func (s *Span) Piece() []byte {
	if !s.pieces() {
		return s.mem
	}
	_, p := s.seek(0, s.n)
	n := min(len(p), s.n)
	return p[:n:n]
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

// CompareSwap stores swap if the word equals cmp and returns the old word, atomically towards this
// device and the CPUs. Values are in host order. The span must be Aligned8; ok is false if it is
// not mapped any more.
func (s *Span) CompareSwap(cmp, swap uint64) (orig uint64, ok bool) {
	return compareSwap(s.word(), cmp, swap)
}

// FetchAdd adds to the word, modulo 2^64, and returns the old word, as CompareSwap does.
func (s *Span) FetchAdd(add uint64) (orig uint64, ok bool) {
	return fetchAdd(s.word(), add)
}

// Store8 writes the word in one piece: ATOMIC WRITE. The span must be
// Aligned8. Bytes from the wire keep their order in memory if v is their
// binary.NativeEndian value. For a word that is not mapped it is as CopyIn.
func (s *Span) Store8(v uint64) (ok bool) {
	return store8(s.word(), v) || !s.g.strict && unmapped(s.mem)
}

func (s *Span) word() *uint64 {
	if !s.Aligned8() {
		panic("mem: atomic on a span that is not an aligned word")
	}
	return word(s.mem)
}
