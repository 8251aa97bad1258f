// SPDX-License-Identifier: BSD-2-Clause

package iwcm

// EventKind is a kind of event of a connection.
type EventKind uint8

// Events. A request has none: Listener.Next brings it.
const (
	// active: the peer accepted; HandOver, then Establish or Fail
	EventReply       EventKind = iota + 1
	EventEstablished           // passive: the peer may be sent to
	EventRejected              // active: the peer's application refused
	EventFailed                // it did not come about: Fault
	// it was established and is over; Fault is FaultNone after an orderly end
	EventDisconnected
)

var eventNames = [...]string{"", "Reply", "Established", "Rejected", "Failed", "Disconnected"}

func (k EventKind) String() string { return eventNames[k] }

// Event is something the application is to know.
type Event struct {
	Kind        EventKind
	Fault       Fault
	PrivateData []byte // of EventReply and EventRejected
}

// PollEvent returns the next event. There are at most two in a Conn's life.
func (c *Conn) PollEvent() (Event, bool) {
	if len(c.events) == 0 {
		return Event{}, false
	}
	ev := c.events[0]
	c.events = c.events[1:]
	return ev, true
}

func (c *Conn) raise(ev Event) {
	if !c.abandoned {
		c.events = append(c.events, ev)
	}
}
