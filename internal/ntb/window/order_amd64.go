// SPDX-License-Identifier: BSD-2-Clause

package window

import "sync/atomic"

// On amd64 stores are seen in their order. sync/atomic would also wait for all of them, and each
// load may have to fetch its line from the other processor. They are not inlined, so that the
// compiler has nothing to move.

//go:noinline
func put1(p *byte, v byte) { *p = v }

//go:noinline
func put4(p *uint32, v uint32) { *p = v }

//go:noinline
func put8(p *uint64, v uint64) { *p = v }

//go:noinline
func putLine(dst, src *[LineBytes / 8]uint64) {
	dst[0] = src[0]
	dst[1] = src[1]
	dst[2] = src[2]
	dst[3] = src[3]
	dst[4] = src[4]
	dst[5] = src[5]
	dst[6] = src[6]
	dst[7] = src[7]
}

func settle() {
	var word atomic.Uint32
	word.Add(1) // locked: it waits for all stores before it
}
