// SPDX-License-Identifier: BSD-2-Clause

//go:build !amd64

package window

import "sync/atomic"

// ordered is changed between the stores of bytes, for which there is nothing in sync/atomic: the
// instruction that changes it stands between them on every processor.
var ordered atomic.Uint32

func put1(p *byte, v byte) {
	ordered.Add(1)
	*p = v
}

func put4(p *uint32, v uint32) { atomic.StoreUint32(p, v) }
func put8(p *uint64, v uint64) { atomic.StoreUint64(p, v) }

func putLine(dst, src *[LineBytes / 8]uint64) {
	for i := range dst {
		atomic.StoreUint64(&dst[i], src[i])
	}
}

// settle has nothing to do: here all words are stored and loaded by sync/atomic, which
// keeps their order.
func settle() {}
