// SPDX-License-Identifier: BSD-2-Clause

package trp

import (
	"bytes"

	"verbena/internal/mem"
	"verbena/internal/monotime"
)

// Sequential is a layer that takes segments in the peer's order only.
type Sequential interface {
	// HandleNext takes the next segment, which is the caller's again when it
	// returns. With false it wants no more, and none comes.
	HandleNext(now monotime.Time, segment []byte) bool
	// HandleAcked is Upper's.
	HandleAcked(now monotime.Time, next uint64)
}

// InOrder is an Upper that passes segments on in order: it holds back, in copies, those beyond a
// gap. A budget bounds them. Segments beyond that come again.
type InOrder struct {
	upper  Sequential
	budget *mem.Budget
	next   uint64
	held   map[uint64][]byte
	bytes  int // taken from the budget
	ended  bool
}

// segmentBytes stands for the memory that a held segment takes beside its bytes.
const segmentBytes = 128

// NewInOrder returns an InOrder for one Conn.
func NewInOrder(upper Sequential, b *mem.Budget) *InOrder {
	return &InOrder{upper: upper, budget: b, held: map[uint64][]byte{}}
}

// Discard ends passing segments on, and gives back the memory of those held.
func (o *InOrder) Discard() {
	o.budget.Give(o.bytes)
	o.held, o.bytes, o.ended = nil, 0, true
}

// HandleSegment passes on the next segment and keeps others.
func (o *InOrder) HandleSegment(now monotime.Time, seq uint64, segment []byte) bool {
	switch {
	case o.ended:
		return false
	case seq == o.next:
		o.pass(now, segment)
	case !o.budget.Take(o.bytes, len(segment)+segmentBytes):
		return false
	default:
		o.held[seq] = bytes.Clone(segment)
		o.bytes += len(segment) + segmentBytes
	}
	return true
}

// HandleInOrder passes on the segments held back.
func (o *InOrder) HandleInOrder(now monotime.Time, next uint64) {
	for o.next < next && !o.ended {
		segment := o.held[o.next]
		delete(o.held, o.next)
		o.bytes -= len(segment) + segmentBytes
		o.budget.Give(len(segment) + segmentBytes)
		o.pass(now, segment)
	}
}

func (o *InOrder) pass(now monotime.Time, segment []byte) {
	o.next++
	if !o.upper.HandleNext(now, segment) {
		o.Discard()
	}
}

// HandleAcked passes on.
func (o *InOrder) HandleAcked(now monotime.Time, next uint64) { o.upper.HandleAcked(now, next) }
