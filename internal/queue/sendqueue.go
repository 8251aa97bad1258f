// SPDX-License-Identifier: BSD-2-Clause

package queue

import "verbena/ib"

// A SendQueue is a ring of send work requests in posting order. The lock of
// its connection guards it. Pointers to its slots hold until the slot is
// popped.
type SendQueue struct {
	ring      ring
	maxSGE    int
	maxInline int

	// allocated at the first Reserve
	wqes   []SendWQE
	sges   []ib.SGE
	inline []byte
}

// NewSendQueue returns a queue of depth work requests with at most maxSGE
// elements or maxInline bytes of inline data each.
func NewSendQueue(depth, maxSGE, maxInline int) *SendQueue {
	return &SendQueue{ring: ring{depth: depth}, maxSGE: maxSGE, maxInline: maxInline}
}

// Reserve returns the next free slot, all zero, with SGE and Inline of length
// 0 and their full capacity; false if the queue is full. The slot joins the
// queue with Commit; without it the next Reserve returns the same one.
func (q *SendQueue) Reserve() (*SendWQE, bool) {
	if q.ring.full() {
		return nil, false
	}
	if q.wqes == nil {
		q.allocate()
	}
	i := q.ring.slot(q.ring.n)
	w := &q.wqes[i]
	s, b := i*q.maxSGE, i*q.maxInline
	*w = SendWQE{SGE: q.sges[s : s : s+q.maxSGE], Inline: q.inline[b : b : b+q.maxInline]}
	return w, true
}

func (q *SendQueue) allocate() {
	q.wqes = make([]SendWQE, q.ring.depth)
	q.sges = make([]ib.SGE, q.ring.depth*q.maxSGE)
	q.inline = make([]byte, q.ring.depth*q.maxInline)
}

// Commit appends the slot that Reserve returned.
func (q *SendQueue) Commit() { q.ring.push() }

// Len returns the number of work requests in the queue.
func (q *SendQueue) Len() int { return q.ring.n }

// Cap returns how many there can be.
func (q *SendQueue) Cap() int { return q.ring.depth }

// MaxSGE returns how many elements a work request may have.
func (q *SendQueue) MaxSGE() int { return q.maxSGE }

// MaxInline returns how many bytes of inline data a work request may have.
func (q *SendQueue) MaxInline() int { return q.maxInline }

// Head returns the absolute index of the oldest work request: how many were
// popped since the start.
func (q *SendQueue) Head() uint64 { return q.ring.head }

// Tail returns the absolute index that the next work request will have.
func (q *SendQueue) Tail() uint64 { return q.ring.head + uint64(q.ring.n) }

// At returns the i-th oldest work request, 0 ≤ i < Len.
func (q *SendQueue) At(i int) *SendWQE {
	if uint(i) >= uint(q.ring.n) {
		panic("queue: no such work request")
	}
	return &q.wqes[q.ring.slot(i)]
}

// AtAbs returns the work request of an absolute index, Head ≤ idx < Tail.
func (q *SendQueue) AtAbs(idx uint64) *SendWQE {
	if idx-q.ring.head >= uint64(q.ring.n) { // also if idx < head
		panic("queue: no such work request")
	}
	return &q.wqes[q.ring.slot(int(idx-q.ring.head))]
}

// PopFront removes the oldest work request.
func (q *SendQueue) PopFront() {
	if q.ring.n > 0 {
		w := &q.wqes[q.ring.first]
		w.Window, w.Region = nil, nil // keep nothing alive
	}
	q.ring.pop()
}
