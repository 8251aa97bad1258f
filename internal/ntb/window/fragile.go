// SPDX-License-Identifier: BSD-2-Clause

package window

import (
	"sync/atomic"

	"verbena/internal/mem"
)

// Fragile returns a window over memory that may go while it is looked at: of a file
// that somebody makes shorter. It reads as zeros then, writes are refused, and gone
// is set. That costs some ten nanoseconds a word.
func Fragile(b []byte, gone *atomic.Bool) *Window {
	w := New(b)
	w.gone = gone
	return w
}

// try runs a function that touches the memory, and reports whether the memory was there.
func (w *Window) try(touch func()) bool {
	if mem.Try(touch) {
		return true
	}
	w.gone.Store(true)
	return false
}

// firm returns the window as one that cannot go.
func (w *Window) firm() Window { return Window{mem: w.mem} }

func (w *Window) tryLoad4(at uint64) (v uint32) {
	f := w.firm()
	w.try(func() { v = f.Load4(at) })
	return v
}

func (w *Window) tryLoad8(at uint64) (v uint64) {
	f := w.firm()
	w.try(func() { v = f.Load8(at) })
	return v
}

func (w *Window) tryStore4(at uint64, v uint32) (ok bool) {
	f := w.firm()
	w.try(func() { ok = f.Store4(at, v) })
	return ok
}

func (w *Window) tryStore8(at uint64, v uint64) (ok bool) {
	f := w.firm()
	w.try(func() { ok = f.Store8(at, v) })
	return ok
}
