// SPDX-License-Identifier: BSD-2-Clause

package window

import (
	"sync/atomic"

	"verbena/internal/mem"
)

// A Window is memory with bounds. The zero Window has no bytes.
type Window struct {
	mem  []byte
	gone *atomic.Bool // of Fragile; nil
}

// Alignment divides the address at which the memory of a window starts.
const Alignment = 8

// New returns a window over b, which must be aligned as Alignment says.
func New(b []byte) *Window {
	if !aligned(b) {
		panic("window: memory is not aligned")
	}
	return &Window{mem: b[:len(b):len(b)]}
}

// Len returns the number of bytes.
func (w *Window) Len() uint64 { return uint64(len(w.mem)) }

// Contains reports whether n bytes at offset at are in the window. at+n is never
// formed: it might wrap.
func (w *Window) Contains(at, n uint64) bool { return at <= w.Len() && n <= w.Len()-at }

// fits reports whether there is an aligned word of n bytes.
func (w *Window) fits(at, n uint64) bool { return at%n == 0 && w.Contains(at, n) }

// Load4 reads a word, 0 where there is none.
func (w *Window) Load4(at uint64) uint32 {
	if w.gone != nil {
		return w.tryLoad4(at)
	}
	if !w.fits(at, 4) {
		return 0
	}
	return littleEndian4(atomic.LoadUint32(word4(w.mem[at:])))
}

// Load8 reads a word, 0 where there is none.
func (w *Window) Load8(at uint64) uint64 {
	if w.gone != nil {
		return w.tryLoad8(at)
	}
	if !w.fits(at, 8) {
		return 0
	}
	return littleEndian8(atomic.LoadUint64(word8(w.mem[at:])))
}

// Store4 writes a word, false where there is none.
func (w *Window) Store4(at uint64, v uint32) bool {
	if w.gone != nil {
		return w.tryStore4(at, v)
	}
	if !w.fits(at, 4) {
		return false
	}
	atomic.StoreUint32(word4(w.mem[at:]), littleEndian4(v))
	return true
}

// Store8 writes a word, false where there is none.
func (w *Window) Store8(at uint64, v uint64) bool {
	if w.gone != nil {
		return w.tryStore8(at, v)
	}
	if !w.fits(at, 8) {
		return false
	}
	atomic.StoreUint64(word8(w.mem[at:]), littleEndian8(v))
	return true
}

// Put4 is Store4 without its last part: it is seen after all earlier writes, but later reads may be
// done before it is seen.
func (w *Window) Put4(at uint64, v uint32) bool {
	if w.gone != nil {
		return w.tryStore4(at, v)
	}
	if !w.fits(at, 4) {
		return false
	}
	put4(word4(w.mem[at:]), littleEndian4(v))
	return true
}

// Put8 is Store8 as Put4 is Store4.
func (w *Window) Put8(at uint64, v uint64) bool {
	if w.gone != nil {
		return w.tryStore8(at, v)
	}
	if !w.fits(at, 8) {
		return false
	}
	put8(word8(w.mem[at:]), littleEndian8(v))
	return true
}

// CopyIn writes p at offset at. It returns false at once if p does not fit in the window. It
// returns false, after some of the bytes, if the memory of p or of the window has gone.
func (w *Window) CopyIn(at uint64, p []byte) bool {
	return w.Contains(at, uint64(len(p))) && w.copied(mem.Copy(w.mem[at:], p))
}

// copied notes that memory has gone.
func (w *Window) copied(ok bool) bool {
	if !ok && w.gone != nil {
		w.gone.Store(true)
	}
	return ok
}

// CopyOut reads len(p) bytes from offset at, as CopyIn writes them.
func (w *Window) CopyOut(at uint64, p []byte) bool {
	return w.Contains(at, uint64(len(p))) && w.copied(mem.Copy(p, w.mem[at:at+uint64(len(p))]))
}

// Bytes returns n bytes at offset at, which the peer may change at any time; ok
// is false if they are not in the window.
func (w *Window) Bytes(at, n uint64) (b []byte, ok bool) {
	if !w.Contains(at, n) {
		return nil, false
	}
	return w.mem[at : at+n : at+n], true
}

// Clear zeroes n bytes at offset at, as far as they are in the window.
func (w *Window) Clear(at, n uint64) {
	b, ok := w.Bytes(at, n)
	switch {
	case !ok:
	case w.gone != nil:
		w.try(func() { clear(b) })
	default:
		clear(b)
	}
}
