// SPDX-License-Identifier: BSD-2-Clause

package trp

import (
	"bytes"

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

// MaxHeldBytes bounds the bytes that an InOrder holds back: six times those that our own sender has
// in flight. Segments beyond that come again.
const MaxHeldBytes = 2 << 20

// InOrder is an Upper that passes segments on in order: it holds back, in copies, those beyond a
// gap.
type InOrder struct {
	upper Sequential
	next  uint64
	held  map[uint64][]byte
	bytes int
	ended bool
}

// NewInOrder returns an InOrder for one Conn.
func NewInOrder(upper Sequential) *InOrder {
	return &InOrder{upper: upper, held: map[uint64][]byte{}}
}

// HandleSegment passes on the next segment and keeps others.
func (o *InOrder) HandleSegment(now monotime.Time, seq uint64, segment []byte) bool {
	switch {
	case o.ended:
		return false
	case seq == o.next:
		o.pass(now, segment)
	case o.bytes+len(segment) > MaxHeldBytes:
		return false
	default:
		o.held[seq] = bytes.Clone(segment)
		o.bytes += len(segment)
	}
	return true
}

// HandleInOrder passes on the segments held back.
func (o *InOrder) HandleInOrder(now monotime.Time, next uint64) {
	for o.next < next && !o.ended {
		segment := o.held[o.next]
		delete(o.held, o.next)
		o.bytes -= len(segment)
		o.pass(now, segment)
	}
}

func (o *InOrder) pass(now monotime.Time, segment []byte) {
	o.next++
	if !o.upper.HandleNext(now, segment) {
		o.ended = true
		o.held, o.bytes = nil, 0
	}
}

// HandleAcked passes on.
func (o *InOrder) HandleAcked(now monotime.Time, next uint64) { o.upper.HandleAcked(now, next) }
