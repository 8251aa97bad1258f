// SPDX-License-Identifier: BSD-2-Clause

package trp

import wire "verbena/internal/wire/trp"

// EventKind is a kind of event of an association.
type EventKind uint8

// Events. Each comes at most once.
const (
	// segments may be sent; the client's Setup holds the server's
	EventEstablished EventKind = iota + 1
	EventRejected              // client: Setup.PrivateData holds
	// client: no answer after all retries, or, with the reason Refused, nobody there
	EventUnreachable
	EventDisconnected // after EventEstablished: Reason holds; nothing more comes up or goes out
	EventClosed       // last: the Conn may be forgotten, and its port used again
)

var eventNames = [...]string{"", "Established", "Rejected", "Unreachable", "Disconnected", "Closed"}

func (k EventKind) String() string {
	if int(k) < len(eventNames) {
		return eventNames[k]
	}
	return "unknown"
}

// Reason is why an association ended.
type Reason uint8

// Reasons of EventDisconnected.
const (
	LocalClose  Reason = iota + 1 // Close or Abort was called
	PeerClose                     // a FIN; all that the peer sent has arrived
	PeerAbort                     // a FIN; segments that the peer sent are missing
	Timeout                       // no acknowledgement after all retries
	Unconfirmed                   // the client did not answer our Accept
	PeerRestart                   // the client asks for a new association from the port of this one
	Refused                       // the network says that nobody has the peer's port any more
	BadMemory                     // the memory of a segment is not mapped any more
)

var reasonNames = [...]string{"", "local close", "peer close", "peer abort", "timeout",
	"unconfirmed", "peer restart", "refused", "bad memory"}

func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return "unknown"
}

// Event is something the layers above are to know.
type Event struct {
	Kind   EventKind
	Reason Reason
	Setup  wire.Setup // owned by the receiver of the event
}

// raise queues an event; there are at most three in a Conn's life.
func (c *Conn) raise(ev Event) { c.events = append(c.events, ev) }

// PollEvent returns the next event.
func (c *Conn) PollEvent() (ev Event, ok bool) {
	if len(c.events) == 0 {
		return Event{}, false
	}
	ev, c.events = c.events[0], c.events[1:]
	return ev, true
}
