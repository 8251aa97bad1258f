// SPDX-License-Identifier: BSD-2-Clause

package mem

import "runtime/debug"

const (
	streamLine = 64
	// streamFrom is the shortest copy that is worth it: a shorter one has too few whole lines.
	streamFrom = 1024
)

// Streams reports whether Stream is more than Copy on this processor.
func Streams() bool { return streams }

// Stream is Copy past the caches. A copy through them fetches each line of dst before it
// is written, from another processor's cache if that read it last. Where the two have no
// cache in common, as on processors made of several chips, that takes longer by far
// than to write to memory; where they have one, it is faster.
func Stream(dst, src []byte) (ok bool) {
	if !streams || len(src) < streamFrom {
		return Copy(dst, src)
	}
	dst = dst[:len(src)]
	defer caught(debug.SetPanicOnFault(true), &ok)
	from, to := streamLines(dst, src)
	copy(dst[:from], src)
	copy(dst[to:], src[to:])
	return true
}
