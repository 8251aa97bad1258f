// SPDX-License-Identifier: BSD-2-Clause

package queue

import (
	"fmt"
	"sync/atomic"

	"verbena/ib"
)

// A RecvRing is the part of a receive queue that its two ends share where a C program posts
// receives. It fills the slots by itself: the layout is that of struct vb_recv_ring in
// cabi/include/engine.h.
//
// Receive i is in slot i & mask of slots of the program's. The counters count up
// for ever.
type RecvRing struct {
	head atomic.Uint64 // receives taken
	_    [56]byte

	tail atomic.Uint64 // receives posted; the fields after it are the poster's own
	_    [56]byte

	posting atomic.Uint32 // Posting
	_       [60]byte
}

// Posting says how a thread posts into a RecvRing.
type Posting uint32

const (
	PostingRefused Posting = iota // no receive may be posted
	PostingFree                   // it posts and goes on
	PostingNotify                 // it posts and notifies the engine: receives are flushed
)

// An OutsideRecvQueue is a receive queue whose slots are filled by another, by a
// RecvRing. Its methods are for the side that takes, which is guarded as a
// RecvQueue is; that of the poster needs no lock of ours.
//
// A slot is a head, which is written as an element is, and maxSGE elements:
//
//	ib.SGE{Addr: work request id, Length: bytes in all, LKey: number of elements}
type OutsideRecvQueue struct {
	ring  *RecvRing // until Leave
	taken uint64    // the value of head

	// changed by move only
	slots  []ib.SGE
	stride uint64 // elements of a slot, its head among them
	mask   uint64
	depth  int
}

// NewOutsideRecvQueue returns a queue of depth work requests with at most maxSGE elements each over
// memory of a C program. The program keeps it in place for as long as anyone may take. Posting is
// refused at first.
//
// Errors: ErrInvalid if slots are no power of two of them or less than depth.
func NewOutsideRecvQueue(r *RecvRing, slots []ib.SGE, depth,
	maxSGE int) (*OutsideRecvQueue, error) {
	n := len(slots) / (1 + maxSGE)
	if n*(1+maxSGE) != len(slots) || n < max(depth, 1) || n&(n-1) != 0 {
		return nil, fmt.Errorf("%w: slots of %d elements for %d receives of %d", ErrInvalid,
			len(slots), depth, maxSGE)
	}
	r.head.Store(0)
	r.tail.Store(0)
	r.posting.Store(uint32(PostingRefused))
	return &OutsideRecvQueue{ring: r, slots: slots, stride: uint64(1 + maxSGE), mask: uint64(n - 1),
		depth: depth}, nil
}

// Let sets how a posting thread posts from now on. A receive that is posted without notice after
// PostingNotify or PostingRefused was set can be popped afterwards.
func (q *OutsideRecvQueue) Let(p Posting) { q.ring.posting.Store(uint32(p)) }

// Leave empties the queue for good. The memory is the other's again: nobody
// looks at it any more.
func (q *OutsideRecvQueue) Leave() {
	q.Let(PostingRefused)
	q.ring, q.taken = &RecvRing{}, 0
}

// slot returns the elements of a receive, its head first.
func (q *OutsideRecvQueue) slot(i uint64) []ib.SGE {
	at := (i & q.mask) * q.stride
	return q.slots[at : at+q.stride]
}

// Pop is RecvQueue's.
func (q *OutsideRecvQueue) Pop(dst *RecvWQE) bool {
	if q.ring.tail.Load() == q.taken {
		return false
	}
	s := q.slot(q.taken)
	n := min(uint64(s[0].LKey), q.stride-1)
	dst.WRID, dst.Length, dst.SGE = s[0].Addr, s[0].Length, append(dst.SGE[:0], s[1:1+n]...)
	q.taken++
	publish(&q.ring.head, q.taken)
	return true
}

// Drop removes all work requests.
func (q *OutsideRecvQueue) Drop() {
	q.taken = q.ring.tail.Load()
	q.ring.head.Store(q.taken)
}

// Len returns the number of work requests in the queue.
func (q *OutsideRecvQueue) Len() int { return int(q.ring.tail.Load() - q.taken) }

// Cap returns how many there can be.
func (q *OutsideRecvQueue) Cap() int { return q.depth }

// MaxSGE returns how many elements a work request may have.
func (q *OutsideRecvQueue) MaxSGE() int { return int(q.stride) - 1 }

// move changes to other memory, for depth work requests. Nobody posts meanwhile.
//
// Errors: those of NewOutsideRecvQueue; ErrInvalid if depth is less than Len.
func (q *OutsideRecvQueue) move(slots []ib.SGE, depth int) error {
	n := uint64(len(slots)) / q.stride
	if n*q.stride != uint64(len(slots)) || n < uint64(max(depth, 1)) || n&(n-1) != 0 ||
		depth < q.Len() {
		return fmt.Errorf("%w: slots of %d elements for %d receives, %d posted", ErrInvalid,
			len(slots), depth, q.Len())
	}
	to := OutsideRecvQueue{ring: q.ring, taken: q.taken, slots: slots, stride: q.stride,
		mask: n - 1, depth: depth}
	for i := q.taken; i != q.ring.tail.Load(); i++ {
		copy(to.slot(i), q.slot(i))
	}
	*q = to
	return nil
}
