// SPDX-License-Identifier: BSD-2-Clause

package window

// LineBytes is the size of a line.
const LineBytes = 64

// PutLine writes a line in ascending order, as Place does: a reader that sees its last word sees
// all of it. at is a multiple of 8.
func (w *Window) PutLine(at uint64, p *[LineBytes]byte) bool {
	if at%8 != 0 || !w.Contains(at, LineBytes) {
		return false
	}
	if w.gone != nil {
		return w.Place(at, p[:])
	}
	putLine(line(w.mem[at:]), lineOf(p))
	return true
}

// LoadLine reads a line. The peer may change any of its words meanwhile. at is a multiple
// of 8.
func (w *Window) LoadLine(at uint64, p *[LineBytes]byte) bool {
	if w.gone != nil {
		return w.CopyOut(at, p[:])
	}
	if at%8 != 0 || !w.Contains(at, LineBytes) {
		return false
	}
	dst, src := lineOf(p), line(w.mem[at:])
	for i := range dst {
		dst[i] = src[i]
	}
	return true
}

// PutLine is Window's.
func (f Far) PutLine(at uint64, p *[LineBytes]byte) bool { return f.w.PutLine(at, p) }

// Settle returns when this thread's earlier writes are seen: later reads are not older. So if two
// nodes each write something and then look, one finds the other's write.
func Settle() { settle() }
