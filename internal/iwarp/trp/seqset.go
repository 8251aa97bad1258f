// SPDX-License-Identifier: BSD-2-Clause

package trp

import "math/bits"

// seqset is a set of sequence numbers that lie within a window of 64 times its
// length, which is a power of two. Nil is an empty set, to which nothing can be added.
type seqset []uint64

func newSeqset(window int) seqset { return make(seqset, window/64) }

func (s seqset) word(seq uint64) *uint64 { return &s[seq>>6&uint64(len(s)-1)] }

func (s seqset) has(seq uint64) bool { return s != nil && *s.word(seq)>>(seq&63)&1 != 0 }
func (s seqset) add(seq uint64)      { *s.word(seq) |= 1 << (seq & 63) }
func (s seqset) remove(seq uint64)   { *s.word(seq) &^= 1 << (seq & 63) }

// runEnd returns the first number from seq on that is not in the set, or
// limit.
func (s seqset) runEnd(seq, limit uint64) uint64 {
	for seq < limit {
		rest := 64 - seq&63 // bits of this word
		n := uint64(bits.TrailingZeros64(^(*s.word(seq) >> (seq & 63))))
		if n < rest {
			return min(seq+n, limit)
		}
		seq += rest
	}
	return limit
}

// runStart returns the lowest number such that all from it to before seq are in
// the set, or floor.
func (s seqset) runStart(seq, floor uint64) uint64 {
	for seq > floor {
		rest := (seq-1)&63 + 1
		n := uint64(bits.LeadingZeros64(^(*s.word(seq - 1) << (64 - rest))))
		if n < rest {
			return max(seq-n, floor)
		}
		seq -= rest
	}
	return floor
}

// lastBefore returns the highest number of the set in [floor, seq).
func (s seqset) lastBefore(seq, floor uint64) (uint64, bool) {
	for seq > floor {
		rest := (seq-1)&63 + 1
		n := uint64(bits.LeadingZeros64(*s.word(seq - 1) << (64 - rest)))
		if n < rest {
			last := seq - 1 - n
			return last, last >= floor
		}
		seq -= rest
	}
	return 0, false
}
