// SPDX-License-Identifier: BSD-2-Clause

package iwcm

import "verbena/internal/fsm"

// State of a connection.
type State uint8

// States.
const (
	Connecting  State = iota // the stream is being opened
	Requesting               // the Request is out, a Reply is awaited
	Replied                  // the peer has accepted; the queue pair is to be given the stream
	Awaiting                 // a stream came; its Request is awaited
	Requested                // the application has the Request, or will have it
	Answered                 // accepted; the peer's first FPDU is awaited
	Established              // both sides may send
	Closed                   // over, whatever it was
)

var stateNames = [...]string{
	"connecting", "requesting", "replied", "awaiting", "requested", "answered",
	"established", "closed",
}

func (s State) String() string { return stateNames[s] }

// transitions has the states that may follow each state.
var transitions = fsm.Table[State]{
	Connecting:  fsm.SetOf(Requesting, Closed),
	Requesting:  fsm.SetOf(Replied, Connecting, Closed),
	Replied:     fsm.SetOf(Established, Closed),
	Awaiting:    fsm.SetOf(Requested, Closed),
	Requested:   fsm.SetOf(Answered, Established, Closed),
	Answered:    fsm.SetOf(Established, Closed),
	Established: fsm.SetOf(Closed),
}

// setState changes the state.
func (c *Conn) setState(s State) {
	transitions.Check("iwcm", c.state, s)
	c.state = s
	if c.listener != nil {
		c.listener.changed(c)
	}
}
