// SPDX-License-Identifier: BSD-2-Clause

//go:build amd64

package mem

import "unsafe"

// streams says that there is an instruction for Stream.
const streams = true

// stream copies n bytes, a multiple of streamLine above 0, to dst, which is on the start of
// a line, past the caches.
//
//go:noescape
func stream(dst, src *byte, n uintptr)

// streamLines copies the whole lines of dst, and returns their range.
func streamLines(dst, src []byte) (from, to int) {
	from = int(-uintptr(unsafe.Pointer(unsafe.SliceData(dst))) & (streamLine - 1))
	n := (len(src) - from) &^ (streamLine - 1)
	stream(&dst[from], &src[from], uintptr(n))
	return from, from + n
}
