// SPDX-License-Identifier: BSD-2-Clause

package queue

import "verbena/ib"

// A RecvQueue is a ring of receive work requests in posting order. The lock of
// its connection guards it.
type RecvQueue struct {
	ring   ring
	maxSGE int

	// allocated at the first Reserve
	wqes []RecvWQE
	sges []ib.SGE
}

// NewRecvQueue returns a queue of depth work requests with at most maxSGE
// elements each.
func NewRecvQueue(depth, maxSGE int) *RecvQueue {
	return &RecvQueue{ring: ring{depth: depth}, maxSGE: maxSGE}
}

// Reserve returns the next free slot, all zero, with SGE of length 0 and its
// full capacity; false if the queue is full. The slot joins the queue with
// Commit; without it the next Reserve returns the same one.
func (q *RecvQueue) Reserve() (*RecvWQE, bool) {
	if q.ring.full() {
		return nil, false
	}
	if q.wqes == nil {
		q.wqes = make([]RecvWQE, q.ring.depth)
		q.sges = make([]ib.SGE, q.ring.depth*q.maxSGE)
	}
	i := q.ring.slot(q.ring.n)
	w := &q.wqes[i]
	s := i * q.maxSGE
	*w = RecvWQE{SGE: q.sges[s : s : s+q.maxSGE]}
	return w, true
}

// Commit appends the slot that Reserve returned.
func (q *RecvQueue) Commit() { q.ring.push() }

// Pop copies the oldest work request to dst, whose SGE is overwritten and
// grows only if its capacity is too small, and removes it; false if there is
// none.
func (q *RecvQueue) Pop(dst *RecvWQE) bool {
	if q.ring.n == 0 {
		return false
	}
	w := &q.wqes[q.ring.first]
	dst.WRID, dst.Length, dst.SGE = w.WRID, w.Length, append(dst.SGE[:0], w.SGE...)
	q.ring.pop()
	return true
}

// Len returns the number of work requests in the queue.
func (q *RecvQueue) Len() int { return q.ring.n }

// Cap returns how many there can be.
func (q *RecvQueue) Cap() int { return q.ring.depth }

// MaxSGE returns how many elements a work request may have.
func (q *RecvQueue) MaxSGE() int { return q.maxSGE }
