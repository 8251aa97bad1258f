// SPDX-License-Identifier: BSD-2-Clause

package channel

// State is where a link stands.
type State uint8

// States.
const (
	// Down: there is no back end. Left by Attach.
	Down State = iota
	// Probing: our session is told, the peer's awaited. Left when the peer has
	// told ours back.
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

func setOf(states ...State) (s uint8) {
	for _, st := range states {
		s |= 1 << st
	}
	return s
}

// allowed says which states may follow each state.
var allowed = [numStates]uint8{
	Down:    setOf(Probing),
	Probing: setOf(Down, Hello, Refused, Probing),
	Hello:   setOf(Down, Probing, Up, Refused),
	Up:      setOf(Down, Probing),
	Refused: setOf(Down, Probing),
}

// setState changes the state. A change that the table does not have is a fault
// of this package.
func (c *Channel) setState(to State) {
	if allowed[c.state]>>to&1 == 0 {
		panic("channel: from " + c.state.String() + " to " + to.String())
	}
	if c.Trace != nil {
		c.Trace(c.state, to)
	}
	c.state = to
}
