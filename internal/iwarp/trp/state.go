// SPDX-License-Identifier: BSD-2-Clause

package trp

// State is where an association stands.
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
	// Draining: Close was called; what is queued still goes. Left when all is
	// acknowledged.
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
	"Idle", "ReqSent", "Requested", "AcceptSent", "Established", "Draining", "FinSent", "TimeWait", "Rejected", "Closed",
}

func (s State) String() string {
	if s < numStates {
		return stateNames[s]
	}
	return "unknown"
}

// stateSet is a set of states.
type stateSet uint16

func setOf(states ...State) (s stateSet) {
	for _, st := range states {
		s |= 1 << st
	}
	return s
}

func (s stateSet) has(st State) bool { return s>>st&1 != 0 }

// allowed says which states may follow each state.
var allowed = [numStates]stateSet{
	Idle:        setOf(ReqSent, Requested),
	ReqSent:     setOf(Established, TimeWait, Closed),
	Requested:   setOf(AcceptSent, Rejected),
	AcceptSent:  setOf(Established, FinSent, TimeWait),
	Established: setOf(Draining, FinSent, TimeWait),
	Draining:    setOf(FinSent, TimeWait),
	FinSent:     setOf(TimeWait),
	TimeWait:    setOf(Closed),
	Rejected:    setOf(Closed),
}

// Groups of states.
var (
	open  = setOf(AcceptSent, Established, Draining) // segments and acknowledgements count
	takes = setOf(AcceptSent, Established)           // Send queues
)

// setState changes the state. A change that the table does not have is a fault
// of this package.
func (c *Conn) setState(to State) {
	if !allowed[c.state].has(to) {
		panic("trp: from " + c.state.String() + " to " + to.String())
	}
	if c.Trace != nil {
		c.Trace(c.state, to)
	}
	c.state = to
}
