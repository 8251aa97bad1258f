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

// Stream is Copy past the caches. Copy fetches each line of dst before it writes it, from another
// processor's cache if that read it last. Between processors that share no cache, as on those made
// of several chips, Copy takes much longer than Stream. Between processors that share one, Copy is
// faster.
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
