// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"net/netip"
	"syscall"

	"verbena/ib"
	"verbena/internal/cm/ibcm"
	"verbena/internal/monotime"
	"verbena/internal/wire/cm"
)

// dispatch takes an event of the agent to the identifier it is about. It runs
// on the manager's goroutine, without manager.mu.
func (b *ibManager) dispatch(ev ibcm.Event) {
	if ev.Kind == ibcm.EventRequest || ev.Kind == ibcm.EventSIDRRequest {
		b.request(ev)
		return
	}
	b.m.mu.Lock()
	c := b.conns[ev.Conn]
	b.m.mu.Unlock()
	if c == nil {
		return // destroyed meanwhile
	}
	var polled func() bool
	if ev.Kind == ibcm.EventDisconnected {
		polled = c.arrived()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == stDestroyed || c.conn != ev.Conn {
		return
	}
	c.raiseDisconnect() // it was before this one
	switch ev.Kind {
	case ibcm.EventReply:
		c.replied(ev)
	case ibcm.EventEstablished:
		c.state = stEstablished
		c.setWill()
		c.raise(Event{Type: Established, PrivateData: ev.PrivateData})
	case ibcm.EventRejected:
		c.over(Event{Type: Rejected, Err: &RejectedError{ev.Reason, ev.PrivateData, c.peer},
			PrivateData: ev.PrivateData})
	case ibcm.EventUnreachable:
		c.over(Event{Type: Unreachable,
			Err: fail(syscall.ETIMEDOUT, "Connect", "%v does not answer", c.peer)})
	case ibcm.EventDisconnected:
		c.clearWill()
		c.setWill() // the answer, if one is due: many programs end without it
		c.state = stDisconnected
		b.delayDisconnect(c, Event{Type: Disconnected, PrivateData: ev.PrivateData}, polled)
	case ibcm.EventTimewaitExit:
		c.raise(Event{Type: TimewaitExit})
	case ibcm.EventSIDRReply:
		c.resolved(ev)
	}
}

// request makes an identifier for a request.
func (b *ibManager) request(ev ibcm.Event) {
	b.m.mu.Lock()
	listener := b.listeners[ev.Listener]
	b.m.mu.Unlock()
	id, why := b.requested(listener, &ev)
	if id == nil {
		b.m.mu.Lock()
		b.refusedLocked(ibcm.Refusal{Path: ev.Path, ServiceID: ev.ServiceID,
			PeerQPN: ev.Params.RemoteQPN, Reason: why})
		b.m.mu.Unlock()
		_ = b.command(func(a *ibcm.Agent, now monotime.Time) error {
			if ev.Kind == ibcm.EventRequest {
				_ = a.Reject(now, ev.Conn, why, nil, nil) // fails if the peer has given up
			}
			a.Destroy(now, ev.Conn)
			return nil
		})
		return
	}
	out := Event{Type: ConnectRequest, ID: id, ListenID: listener.ID, PrivateData: ev.PrivateData}
	if ev.Kind == ibcm.EventRequest {
		out.Conn = connParam(&ev.Params)
	}
	listener.raiseRequest(&out)
}

// requested checks a request and returns an identifier for it, or the reason of its refusal. It
// takes the IP header off the private data.
func (b *ibManager) requested(listener *ibConnector, ev *ibcm.Event) (*ID, cm.Reason) {
	if listener == nil {
		return nil, cm.RejInvalidServiceID
	}
	typ := ib.QPTypeUD
	if ev.Kind == ibcm.EventRequest {
		typ = requestType(ev.Params.Service)
	}
	if !listener.takes(typ) {
		return nil, cm.RejInvalidTransportType
	}
	// Only the port is taken from the header: the addresses are those that the request came by,
	// even if it names others.
	h, rest, ok := cm.ParseIPHeader(ev.PrivateData)
	if !ok {
		return nil, cm.RejUnsupported
	}
	peer := netip.AddrPortFrom(ev.Path.Remote, h.Port)
	ev.PrivateData = rest
	at, err := b.m.locate(b.kind, ev.Path.Local)
	if err != nil {
		return nil, cm.RejInvalidGID
	}
	if ev.Kind == ibcm.EventRequest && ev.Params.PathMTU > at.mtu() {
		return nil, cm.RejInvalidMTU
	}
	if !b.m.join() {
		return nil, cm.RejNoResources
	}
	id := &ID{
		mgr: b.m, ps: listener.ps, kind: b.kind, state: stRequested, at: at,
		local: netip.AddrPortFrom(at.addr, ev.ServiceID.Port()), peer: peer, typ: typ,
	}
	c := b.newConnector(id)
	c.conn, c.psn = ev.Conn, ib.NewPSN(uint32(b.m.random()))
	id.proto = c
	b.m.mu.Lock()
	defer b.m.mu.Unlock()
	if ev.Kind == ibcm.EventRequest {
		c.params, _ = b.agent.QPParams(ev.Conn) // fails if the peer has given up, as Accept will
		c.params.RQPSN = c.psn
	}
	b.m.ids[id] = struct{}{}
	b.conns[ev.Conn] = c
	return id, 0
}

// connParam returns the peer's parameters as those of an event.
func connParam(p *ibcm.Params) ConnParam {
	return ConnParam{
		ResponderResources: p.ResponderResources, InitiatorDepth: p.InitiatorDepth,
		FlowControl: p.FlowControl, RetryCount: p.RetryCount, RNRRetryCount: p.RNRRetryCount,
		SRQ: p.SRQ, QPN: p.RemoteQPN, ECE: p.ECE,
	}
}

// replied handles the peer's acceptance: it makes the queue pair ready, then sends the RTU.
func (c *ibConnector) replied(ev ibcm.Event) {
	err := c.ib.command(func(a *ibcm.Agent, _ monotime.Time) (err error) {
		c.params, err = a.QPParams(c.conn)
		return err
	})
	if err != nil {
		return // over already; another event says so
	}
	c.state = stReplied
	out := Event{Type: ConnectResponse, PrivateData: ev.PrivateData, Conn: connParam(&ev.Params)}
	if c.qp == nil {
		c.raise(out)
		return
	}
	if err = c.readyQP(); err == nil {
		if err = c.establish(); err == nil {
			c.state = stEstablished
		}
	}
	if err != nil {
		_ = c.ib.command(func(a *ibcm.Agent, now monotime.Time) error {
			return a.Reject(now, c.conn, cm.RejConsumer, nil, nil)
		})
		c.over(Event{Type: ConnectError, Err: err})
		return
	}
	out.Type = Established
	c.raise(out)
}

// resolved takes the answer to a SIDR_REQ.
func (c *ibConnector) resolved(ev ibcm.Event) {
	if ev.SIDRStatus != cm.SIDRSuccess {
		c.state = stDisconnected
		c.raise(Event{
			Type: Unreachable, PrivateData: ev.PrivateData,
			Err: &UnservedError{ev.SIDRStatus, c.peer},
		})
		return
	}
	c.state = stEstablished
	c.raise(Event{Type: Established, PrivateData: ev.PrivateData, UD: UDParam{
		PrivateData: ev.PrivateData, AH: c.ahAttr(), QPN: ev.QPN, QKey: ev.QKey,
	}})
}
