// SPDX-License-Identifier: BSD-2-Clause

package queue

import (
	"math/bits"
	"sync/atomic"

	"verbena/ib"
)

// A Ring is the part of a completion queue that its two ends share: the
// counters, and where the completions are. It may lie in memory of C, whose
// program then polls by itself: the layout is that of struct vb_cq_ring in
// cabi/include/engine.h, with a cache line for each end.
//
// Completion i is in slot i & mask. The counters count up for ever.
type Ring struct {
	head atomic.Uint64 // completions polled
	_    [56]byte

	tail    atomic.Uint64 // completions pushed
	overrun atomic.Uint32 // not 0 once a completion was lost
	_       [52]byte

	mask uint64
	base uintptr // address of the slots, for a C program that polls by itself; 0 in a ring of Go's
	_    [48]byte
}

func newSlots(depth int) []ib.WC {
	return make([]ib.WC, uint64(1)<<bits.Len64(uint64(depth-1)))
}

// fits reports whether slots are a power of two and have room for depth
// completions.
func fits(slots []ib.WC, depth int) bool {
	return depth >= 1 && depth <= len(slots) && len(slots)&(len(slots)-1) == 0
}
