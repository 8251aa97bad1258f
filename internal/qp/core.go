// SPDX-License-Identifier: BSD-2-Clause

package qp

import (
	"verbena/ib"
	"verbena/internal/fsm"
	"verbena/internal/mem"
	"verbena/internal/queue"
)

// Core is the part of a queue pair that depends neither on its service nor on
// its transport: state, attributes, events and the receive that a message fills.
type Core struct {
	Config

	Attr ib.QPAttr // as modified, and returned by Query

	Recv     queue.RecvWQE // the receive taken for the message in progress
	RecvHeld bool          // Recv is taken and not completed

	state    ib.QPState
	received uint32
	events   []ib.EventType
	cause    ib.VendorErr
	wc       ib.WC       // scratch: passing it on by pointer costs no allocation
	placed   mem.LastKey // of local memory that was written
}

// NewCore returns a core in the RESET state.
func NewCore(c Config) Core { return Core{Config: c, state: ib.QPReset} }

// State returns the state of the queue pair.
func (q *Core) State() ib.QPState { return q.state }

// Received counts the messages that completed a receive; it wraps.
func (q *Core) Received() uint32 { return q.received }

// transitions has the states that may follow each state.
//
// Spec: IBTA vol. 1, figure 124 (QP/EE context state diagram).
var transitions = fsm.Table[ib.QPState]{
	ib.QPReset: fsm.SetOf(ib.QPReset, ib.QPInit, ib.QPErr),
	ib.QPInit:  fsm.SetOf(ib.QPReset, ib.QPInit, ib.QPRTR, ib.QPErr),
	ib.QPRTR:   fsm.SetOf(ib.QPReset, ib.QPRTS, ib.QPErr),
	ib.QPRTS:   fsm.SetOf(ib.QPReset, ib.QPRTS, ib.QPSQD, ib.QPSQE, ib.QPErr),
	ib.QPSQD:   fsm.SetOf(ib.QPReset, ib.QPRTS, ib.QPSQD, ib.QPSQE, ib.QPErr),
	ib.QPSQE:   fsm.SetOf(ib.QPReset, ib.QPRTS, ib.QPErr),
	ib.QPErr:   fsm.SetOf(ib.QPReset, ib.QPErr),
}

// Enter changes the state. It panics on a transition that the object layer
// must have refused.
func (q *Core) Enter(s ib.QPState) {
	transitions.Check("qp", q.state, s)
	switch s {
	case ib.QPReset, ib.QPInit, ib.QPRTS:
		q.cause = ib.VendorNone
	}
	q.state = s
	if q.OnState != nil {
		q.OnState(s)
	}
}

// Reset forgets everything but the configuration, and with it all work posted,
// which makes no completion.
//
// Spec: IBTA vol. 1, 10.3.1.1 (Reset).
func (q *Core) Reset() {
	q.Enter(ib.QPReset)
	for q.SQ.Len() > 0 {
		q.SQ.PopFront()
	}
	for !q.SRQ && q.RQ.Pop(&q.Recv) {
	}
	*q = Core{Config: q.Config, Recv: q.Recv}
}

// maxEvents bounds the events kept for PollEvent: each kind is raised at most
// once between two modifications.
const maxEvents = 8

// Raise keeps an asynchronous event for PollEvent.
func (q *Core) Raise(e ib.EventType) {
	if len(q.events) < maxEvents {
		q.events = append(q.events, e)
	}
}

// Blame keeps the reason of a failure, for the event that it makes. A failure without a reason of
// its own leaves the one before.
func (q *Core) Blame(v ib.VendorErr) {
	if v != ib.VendorNone {
		q.cause = v
	}
}

// Cause returns the reason that Blame kept since the queue pair was last in RESET, INIT or RTS.
func (q *Core) Cause() ib.VendorErr { return q.cause }

// PollEvent returns the next asynchronous event.
func (q *Core) PollEvent() (ib.EventType, bool) {
	if len(q.events) == 0 {
		return 0, false
	}
	e := q.events[0]
	q.events = q.events[:copy(q.events, q.events[1:])]
	return e, true
}
