// SPDX-License-Identifier: BSD-2-Clause

package window

import "verbena/internal/mem"

// Far is the peer's window, seen from here: it is written and never read. A read
// over a bridge stops the processor for as long as the answer takes, and a peer
// that is gone answers with nonsense.
type Far struct{ w *Window }

// Far returns the peer's mapping of a window of ours, or ours of one of the peer's.
func (w *Window) Far() Far { return Far{w} }

// Mapped reports whether there is a window: the zero Far has none.
func (f Far) Mapped() bool { return f.w != nil }

// Len returns the number of bytes.
func (f Far) Len() uint64 { return f.w.Len() }

// Contains is Window's.
func (f Far) Contains(at, n uint64) bool { return f.w.Contains(at, n) }

// CopyIn is Window's.
func (f Far) CopyIn(at uint64, p []byte) bool { return f.w.CopyIn(at, p) }

// Store4 is Window's.
func (f Far) Store4(at uint64, v uint32) bool { return f.w.Store4(at, v) }

// Store8 is Window's.
func (f Far) Store8(at uint64, v uint64) bool { return f.w.Store8(at, v) }

// Put4 is Window's.
func (f Far) Put4(at uint64, v uint32) bool { return f.w.Put4(at, v) }

// Put8 is Window's.
func (f Far) Put8(at uint64, v uint64) bool { return f.w.Put8(at, v) }

// Place is Window's.
func (f Far) Place(at uint64, p []byte) bool { return f.w.Place(at, p) }

// Gather writes n bytes of a span, from its offset off on, at offset at; false, after
// some of them, if its memory or the window's has gone, and false at once if
// they are not in the window.
func (f Far) Gather(at uint64, s *mem.Span, off, n int) bool {
	dst, ok := f.w.Bytes(at, uint64(n))
	if !ok || s.CopyOut(off, dst) {
		return ok
	}
	if f.w.gone != nil { // which of the two has? These bytes were to be written anyway
		f.w.try(func() { clear(dst) })
	}
	return false
}
