// SPDX-License-Identifier: BSD-2-Clause

package channel

import "verbena/internal/fsm"

// State is the state of a link.
type State uint8

// States.
const (
	// Down: there is no back end. Left by Attach.
	Down State = iota
	// Probing: our session is written, the peer's awaited. Left when the peer has echoed ours.
	Probing
	// Hello: the phases are exchanged. Left when all are, or when the time for
	// them is over.
	Hello
	// Up: the client may write.
	Up
	// Refused: the peer and we do not understand each other. Left after
	// refusedPause, for another try, or when the peer begins anew.
	Refused

	numStates
)

var stateNames = [numStates]string{"Down", "Probing", "Hello", "Up", "Refused"}

func (s State) String() string {
	if s < numStates {
		return stateNames[s]
	}
	return "unknown"
}

// transitions has the states that may follow each state.
var transitions = fsm.Table[State]{
	Down:    fsm.SetOf(Probing),
	Probing: fsm.SetOf(Down, Hello, Refused, Probing),
	Hello:   fsm.SetOf(Down, Probing, Up, Refused),
	Up:      fsm.SetOf(Down, Probing),
	Refused: fsm.SetOf(Down, Probing),
}

// setState changes the state. A change that the table does not have is a fault
// of this package.
func (c *Channel) setState(to State) {
	transitions.Check("channel", c.state, to)
	if c.Trace != nil {
		c.Trace(c.state, to)
	}
	c.state = to
}
