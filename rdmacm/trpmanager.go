// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"net/netip"
	"sync"
	"syscall"

	"verbena/ib"
	"verbena/internal/iwarp/trp"
	"verbena/internal/monotime"
	transporttrp "verbena/internal/transport/trp"
)

// trpManager takes events of TRP's associations to the identifiers. The associations themselves
// belong to the queue pairs and their listeners.
//
// A thread that reads a socket only puts an event here; the manager's goroutine handles it.
type trpManager struct {
	m *manager // immutable

	mu     sync.Mutex // a leaf
	events []trpEvent
}

// trpEvent is an event for an identifier: a request, or a change of its association.
type trpEvent struct {
	to      *trpConnector
	request *transporttrp.Request
	link    trp.Event
}

func (t *trpManager) put(ev trpEvent) {
	t.mu.Lock()
	t.events = append(t.events, ev)
	t.mu.Unlock()
	t.m.kick()
}

func (t *trpManager) serve(monotime.Time) (next monotime.Time, busy bool) {
	t.mu.Lock()
	events := t.events
	t.events = nil
	t.mu.Unlock()
	for _, ev := range events {
		if ev.request != nil {
			t.requested(ev.to, ev.request)
		} else {
			ev.to.happened(ev.link)
		}
	}
	return monotime.Never, len(events) > 0
}

func (t *trpManager) idleLocked() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.events) == 0
}

// requested makes an identifier for a request.
func (t *trpManager) requested(listener *trpConnector, r *transporttrp.Request) {
	at, err := t.m.locate(TRP, r.Local)
	if err != nil || !t.m.join() {
		t.m.noteRefusal(refusal{kind: TRP, why: noIdentifier, peer: r.Remote,
			local: netip.AddrPortFrom(r.Local, listener.LocalAddr().Port())})
		_ = r.Reject(r.Local, nil) // the client asks again, or gives up
		return
	}
	peer := netip.AddrPortFrom(r.Remote.Addr().WithZone(at.addr.Zone()), r.Remote.Port())
	id := &ID{
		mgr: t.m, ps: listener.ps, kind: TRP, state: stRequested, at: at,
		local: netip.AddrPortFrom(at.addr, listener.LocalAddr().Port()), peer: peer,
		typ: ib.QPTypeRC,
	}
	c := t.newConnector(id)
	c.request, c.remote = r, r.Setup
	id.proto = c
	t.m.mu.Lock()
	t.m.ids[id] = struct{}{}
	t.m.mu.Unlock()
	listener.raiseRequest(&Event{
		Type: ConnectRequest, ID: id, ListenID: listener.ID, PrivateData: r.Setup.PrivateData,
		Conn: ConnParam{ResponderResources: clampDepth(r.Setup.ORD),
			InitiatorDepth: clampDepth(r.Setup.IRD)},
	})
}

// happened handles an event of the association.
func (c *trpConnector) happened(ev trp.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == stDestroyed {
		return
	}
	switch ev.Kind {
	case trp.EventEstablished:
		c.state = stEstablished
		c.raise(Event{Type: Established, PrivateData: ev.Setup.PrivateData,
			Conn: ConnParam{ResponderResources: clampDepth(ev.Setup.ORD),
				InitiatorDepth: clampDepth(ev.Setup.IRD)}})
		if c.qp == nil { // destroyed meanwhile
			c.streamGone()
		}
	case trp.EventRejected:
		c.over(Event{Type: Rejected, Err: &RejectedError{RejectConsumer, ev.Setup.PrivateData,
			c.peer}, PrivateData: ev.Setup.PrivateData})
	case trp.EventUnreachable:
		if ev.Reason == trp.Refused {
			c.over(Event{Type: Rejected,
				Err: &RejectedError{Reason: RejectNoListener, Peer: c.peer}})
			return
		}
		c.over(Event{Type: Unreachable,
			Err: fail(syscall.ETIMEDOUT, "Connect", "%v does not answer", c.peer)})
	case trp.EventDisconnected:
		if c.state == stDisconnected {
			return // the queue pair was destroyed meanwhile
		}
		if c.state != stEstablished {
			c.over(Event{Type: Unreachable,
				Err: fail(syscall.ETIMEDOUT, "Accept", "%v has not confirmed it", c.peer)})
			return
		}
		c.state = stDisconnected
		out := Event{Type: Disconnected}
		switch ev.Reason {
		case trp.LocalClose, trp.PeerClose:
		case trp.Timeout:
			out.Err = fail(syscall.ETIMEDOUT, "connection",
				"%v does not acknowledge any more", c.peer)
		default:
			out.Err = fail(syscall.ECONNRESET, "connection", "%v", ev.Reason)
		}
		c.raise(out)
	}
}
