// SPDX-License-Identifier: BSD-2-Clause

package iwcm

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
	"connecting", "requesting", "replied", "awaiting", "requested", "answered", "established", "closed",
}

func (s State) String() string { return stateNames[s] }

// after are the states that may follow a state.
var after = [...]uint8{
	Connecting:  1<<Requesting | 1<<Closed,
	Requesting:  1<<Replied | 1<<Connecting | 1<<Closed,
	Replied:     1<<Established | 1<<Closed,
	Awaiting:    1<<Requested | 1<<Closed,
	Requested:   1<<Answered | 1<<Established | 1<<Closed,
	Answered:    1<<Established | 1<<Closed,
	Established: 1 << Closed,
	Closed:      0,
}

// setState changes the state.
func (c *Conn) setState(s State) {
	if after[c.state]>>s&1 == 0 {
		panic("iwcm: no transition from " + c.state.String() + " to " + s.String())
	}
	c.state = s
	if c.listener != nil {
		c.listener.changed(c)
	}
}
