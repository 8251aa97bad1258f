// SPDX-License-Identifier: BSD-2-Clause

package mem

import "sync/atomic"

// Budget bounds the memory that the queue pairs of a process use together for packets that
// arrived before their turn.
//
// A queue pair may use at most as much as is left when it asks. So one that a peer has filled
// leaves half to the others, and n of them leave one part in n+1.
//
// Source: Choudhury and Hahne, Dynamic queue length thresholds for shared-memory packet
// switches, 1998.
type Budget struct{ left atomic.Int64 }

// NewBudget returns a budget of so many bytes.
func NewBudget(bytes int) *Budget {
	b := &Budget{}
	b.left.Store(int64(bytes))
	return b
}

// Take takes n bytes for a queue pair that has taken some already, or reports that it may not.
func (b *Budget) Take(taken, n int) bool {
	for {
		left := b.left.Load()
		if int64(taken+n) > left-int64(n) {
			return false
		}
		if b.left.CompareAndSwap(left, left-int64(n)) {
			return true
		}
	}
}

// Give returns n bytes that were taken.
func (b *Budget) Give(n int) { b.left.Add(int64(n)) }

// Left returns how many bytes are not taken.
func (b *Budget) Left() int { return int(b.left.Load()) }
