// SPDX-License-Identifier: BSD-2-Clause

package trp

import "verbena/internal/fsm"

// State is the state of an association.
type State uint8

// States.
const (
	// Idle: just made; left at once.
	Idle State = iota
	// ReqSent: the client repeats its Request; left by Accept, Reject or the
	// last retry.
	ReqSent
	// Requested: the server's application has the request; left by Accept or
	// Reject.
	Requested
	// AcceptSent: the server repeats its Accept; left by the first datagram of
	// the association, or the last retry.
	AcceptSent
	// Established: segments flow; left by Close, Abort, FIN or the last retry.
	Established
	// Draining: Close was called; queued segments still go. Left when all is acknowledged.
	Draining
	// FinSent: our FIN is out and repeated; left by FIN or the last retry.
	FinSent
	// TimeWait: over; a repeated FIN is answered again. Left when the time is.
	TimeWait
	// Rejected: our Reject may have been lost; a repeated Request gets it again.
	// Left when the time is over.
	Rejected
	// Closed: nothing is left.
	Closed

	numStates
)

var stateNames = [numStates]string{
	"Idle", "ReqSent", "Requested", "AcceptSent", "Established", "Draining", "FinSent", "TimeWait",
	"Rejected", "Closed",
}

func (s State) String() string {
	if s < numStates {
		return stateNames[s]
	}
	return "unknown"
}

// transitions has the states that may follow each state.
var transitions = fsm.Table[State]{
	Idle:        fsm.SetOf(ReqSent, Requested),
	ReqSent:     fsm.SetOf(Established, TimeWait, Closed),
	Requested:   fsm.SetOf(AcceptSent, Rejected),
	AcceptSent:  fsm.SetOf(Established, FinSent, TimeWait),
	Established: fsm.SetOf(Draining, FinSent, TimeWait),
	Draining:    fsm.SetOf(FinSent, TimeWait),
	FinSent:     fsm.SetOf(TimeWait),
	TimeWait:    fsm.SetOf(Closed),
	Rejected:    fsm.SetOf(Closed),
}

// Groups of states.
var (
	open  = fsm.SetOf(AcceptSent, Established, Draining) // segments and acknowledgements count
	takes = fsm.SetOf(AcceptSent, Established)           // Send queues
)

// setState changes the state. A change that the table does not have is a fault
// of this package.
func (c *Conn) setState(to State) {
	transitions.Check("trp", c.state, to)
	if c.Trace != nil {
		c.Trace(c.state, to)
	}
	c.state = to
}
