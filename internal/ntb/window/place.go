// SPDX-License-Identifier: BSD-2-Clause

package window

import "encoding/binary"

// Place writes p at offset at in ascending order, whole words where they are aligned. A reader that
// sees its last byte sees all of it, and nobody sees a part of a word that it covers. It is for few
// bytes of memory that is there; false if they are not in the window, or a Fragile one's has gone.
func (w *Window) Place(at uint64, p []byte) bool {
	if !w.Contains(at, uint64(len(p))) {
		return false
	}
	if w.gone != nil {
		return w.try(func() { place(w.mem[at:at+uint64(len(p))], p) })
	}
	place(w.mem[at:at+uint64(len(p))], p)
	return true
}

// place copies src to dst, which is as long.
func place(dst, src []byte) {
	for len(dst) > 0 && !aligned(dst) {
		put1(&dst[0], src[0])
		dst, src = dst[1:], src[1:]
	}
	for ; len(dst) >= 8; dst, src = dst[8:], src[8:] {
		put8(word8(dst), binary.NativeEndian.Uint64(src))
	}
	for i := range dst {
		put1(&dst[i], src[i])
	}
}
