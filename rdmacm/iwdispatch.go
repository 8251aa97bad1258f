// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"syscall"

	"verbena/internal/cm/iwcm"
	"verbena/internal/core"
	"verbena/internal/monotime"
)

// dispatch takes an event of a connection to its identifier. It runs on the
// manager's goroutine, without manager.mu.
func (c *iwConnector) dispatch(s *iwStream, ev iwcm.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == stDestroyed || c.stream != s {
		return
	}
	switch ev.Kind {
	case iwcm.EventReply:
		c.replied(ev)
	case iwcm.EventEstablished:
		c.state = stEstablished
		c.raise(Event{Type: Established})
		if c.qp == nil { // destroyed meanwhile
			c.streamGone()
		}
	case iwcm.EventRejected:
		c.over(Event{Type: Rejected, Err: &RejectedError{RejectConsumer, ev.PrivateData, c.peer},
			PrivateData: ev.PrivateData})
	case iwcm.EventFailed:
		c.over(c.failure(ev.Fault))
	case iwcm.EventDisconnected:
		if c.state == stDisconnected {
			return // the queue pair was destroyed meanwhile
		}
		c.state = stDisconnected
		c.raise(Event{Type: Disconnected})
	}
}

// replied handles the peer's acceptance: the queue pair gets the stream.
func (c *iwConnector) replied(ev iwcm.Event) {
	m, s := c.mgr, c.stream
	m.mu.Lock()
	if s.conn.State() != iwcm.Replied {
		m.mu.Unlock()
		return // over already; another event says so
	}
	sock, in := c.handOverLocked()
	in.Initiator = true
	out := Event{Type: Established, PrivateData: ev.PrivateData}
	out.Conn.InitiatorDepth, out.Conn.ResponderResources = peerDepths(s.conn)
	var err error
	if c.qp != nil {
		// Before the Reply: the peer may end the connection at once.
		err = s.conn.Establish()
	}
	m.mu.Unlock()
	if c.qp == nil { // destroyed meanwhile
		sock.Abort()
		c.iw.update(s, func(conn *iwcm.Conn, _ monotime.Time) { conn.Fail() })
		return
	}
	if err == nil {
		err = (*core.QP)(c.qp).ConnectStream(sock, in)
	}
	if err != nil {
		c.iw.update(s, func(conn *iwcm.Conn, _ monotime.Time) { conn.Destroy() })
		c.over(Event{Type: ConnectError, Err: err})
		return
	}
	c.state = stEstablished
	c.raise(out)
}

// failure returns the event for a connection that did not come about.
//
// Source: cma_iw_handler in Linux, where any refusal is Rejected, and no answer is Unreachable.
func (c *iwConnector) failure(f iwcm.Fault) Event {
	switch f {
	case iwcm.FaultRefused:
		return Event{Type: Rejected, Err: &RejectedError{Reason: RejectNoListener, Peer: c.peer}}
	case iwcm.FaultReset:
		return Event{Type: Rejected,
			Err: fail(syscall.ECONNRESET, "Connect", "%v has closed the stream", c.peer)}
	case iwcm.FaultTimeout:
		return Event{Type: Unreachable,
			Err: fail(syscall.ETIMEDOUT, "Connect", "%v does not answer", c.peer)}
	case iwcm.FaultUnreachable:
		return Event{Type: Unreachable,
			Err: fail(syscall.EHOSTUNREACH, "Connect", "there is no way to %v", c.peer)}
	}
	return Event{Type: ConnectError,
		Err: fail(syscall.EPROTO, "Connect", "no agreement with %v: %v", c.peer, f)}
}
