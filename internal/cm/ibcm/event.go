// SPDX-License-Identifier: BSD-2-Clause

package ibcm

import (
	"verbena/ib"
	"verbena/internal/wire/cm"
)

// EventKind is a kind of event of a connection.
type EventKind uint8

// Events. Each is raised once, even if messages are lost, repeated or reordered on the way.
const (
	EventRequest EventKind = iota + 1 // passive: a REQ came for Listener; Accept or Reject
	// active: the REP came; program the QP, then Establish or Reject
	EventReply
	EventEstablished  // passive: the RTU came, or a packet of the queue pair arrived
	EventRejected     // a REJ came; Reason, ARI and PrivateData hold
	EventUnreachable  // no answer after all retries
	EventDisconnected // a DREQ came (call Disconnect), or ours was answered or given up
	EventTimewaitExit // the QP of the connection may be used again
	EventSIDRRequest  // a SIDR_REQ came for Listener; ReplySIDR
	EventSIDRReply    // the SIDR_REP came; SIDRStatus, and on success RemoteQPN and QKey hold
)

var eventNames = [...]string{"", "Request", "Reply", "Established", "Rejected", "Unreachable",
	"Disconnected", "TimewaitExit", "SIDRRequest", "SIDRReply"}

func (k EventKind) String() string {
	if int(k) < len(eventNames) {
		return eventNames[k]
	}
	return "unknown"
}

// Event is something the application is to know. Fields that Kind does not
// name are zero.
type Event struct {
	Kind       EventKind
	Conn       ConnID
	Listener   ListenerID
	Path       Path
	Params     Params // of EventRequest and EventReply
	Reason     cm.Reason
	SIDRStatus cm.SIDRStatus
	ServiceID  cm.ServiceID // of requests
	QPN        ib.QPN       // of EventSIDRReply
	QKey       ib.QKey      // of EventSIDRReply
	ARI        []byte       // of EventRejected: additional reject information
	// PrivateData is the peer's private data, padded with zeros to the message's size. The receiver
	// of the event owns it.
	PrivateData []byte

	conn *conn
}

// PollEvent returns the next event.
func (a *Agent) PollEvent() (Event, bool) {
	for a.eventHead < len(a.events) {
		ev := a.events[a.eventHead]
		a.events[a.eventHead] = Event{}
		a.eventHead++
		if ev.conn.owned {
			ev.conn.delivered = true
			ev.conn = nil
			return ev, true
		}
	}
	a.events, a.eventHead = a.events[:0], 0
	return Event{}, false
}

// raise queues an event. The queue needs no bound of its own: a connection
// raises a handful of events in its life, and connections are bounded.
func (a *Agent) raise(c *conn, ev Event) {
	if !c.owned {
		return
	}
	ev.conn, ev.Conn, ev.Path = c, c.id, c.path
	a.events = append(a.events, ev)
}
