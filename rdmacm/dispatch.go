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
func (m *manager) dispatch(ev ibcm.Event) {
	if ev.Kind == ibcm.EventRequest || ev.Kind == ibcm.EventSIDRRequest {
		m.request(ev)
		return
	}
	m.mu.Lock()
	id := m.conns[ev.Conn]
	m.mu.Unlock()
	if id == nil {
		return // destroyed meanwhile
	}
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.state == stDestroyed || id.conn != ev.Conn {
		return
	}
	switch ev.Kind {
	case ibcm.EventReply:
		id.replied(ev)
	case ibcm.EventEstablished:
		id.state = stEstablished
		id.setWill()
		id.raise(Event{Type: Established, PrivateData: ev.PrivateData})
	case ibcm.EventRejected:
		id.over(Event{Type: Rejected, Err: &RejectedError{ev.Reason}, PrivateData: ev.PrivateData})
	case ibcm.EventUnreachable:
		id.over(Event{Type: Unreachable, Err: fail(syscall.ETIMEDOUT, "Connect", "%v does not answer", id.peer)})
	case ibcm.EventDisconnected:
		id.clearWill()
		id.setWill() // the answer, if one is due: many a program ends without giving it
		id.state = stDisconnected
		id.raise(Event{Type: Disconnected, PrivateData: ev.PrivateData})
	case ibcm.EventTimewaitExit:
		id.raise(Event{Type: TimewaitExit})
	case ibcm.EventSIDRReply:
		id.resolved(ev)
	}
}

// request makes an identifier for a request.
func (m *manager) request(ev ibcm.Event) {
	m.mu.Lock()
	listener := m.listeners[ev.Listener]
	m.mu.Unlock()
	id, why := m.requested(listener, &ev)
	if id == nil {
		_ = m.command(func(a *ibcm.Agent, now monotime.Time) error {
			if ev.Kind == ibcm.EventRequest {
				_ = a.Reject(now, ev.Conn, why, nil, nil) // fails if the peer has given up
			}
			a.Destroy(now, ev.Conn)
			return nil
		})
		return
	}
	out := Event{Type: ConnectRequest, ID: id, ListenID: listener, PrivateData: ev.PrivateData}
	if ev.Kind == ibcm.EventRequest {
		out.Conn = connParam(&ev.Params)
	}
	listener.mu.Lock()
	defer listener.mu.Unlock()
	id.ch = listener.ch
	if listener.state != stListening { // destroyed meanwhile
		_ = id.Destroy() // nobody has seen it: it cannot have a queue pair
		return
	}
	listener.ch.put(&out)
}

// requested checks a request and returns the identifier that stands for it, or
// why it is refused. It takes the IP header off the private data.
func (m *manager) requested(listener *ID, ev *ibcm.Event) (*ID, cm.Reason) {
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
	// Only the port is taken from the header: the addresses are those that the
	// request came by, whatever it says.
	h, rest, ok := cm.ParseIPHeader(ev.PrivateData)
	if !ok {
		return nil, cm.RejUnsupported
	}
	peer := netip.AddrPortFrom(ev.Path.Remote, h.Port)
	ev.PrivateData = rest
	at, err := m.locate(ev.Path.Local)
	if err != nil {
		return nil, cm.RejInvalidGID
	}
	if ev.Kind == ibcm.EventRequest && ev.Params.PathMTU > at.mtu() {
		return nil, cm.RejInvalidMTU
	}
	if !m.join() {
		return nil, cm.RejNoResources
	}
	id := &ID{
		mgr: m, ps: listener.ps, state: stRequested, place: at, local: netip.AddrPortFrom(at.addr, ev.ServiceID.Port()), peer: peer,
		conn: ev.Conn, typ: typ, psn: ib.NewPSN(uint32(m.random())),
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if ev.Kind == ibcm.EventRequest {
		id.params, _ = m.agent.QPParams(ev.Conn) // fails if the peer has given up; Accept will tell
		id.params.RQPSN = id.psn
	}
	m.ids[id] = struct{}{}
	m.conns[ev.Conn] = id
	return id, 0
}

// connParam turns what a peer said into an event's parameters.
func connParam(p *ibcm.Params) ConnParam {
	return ConnParam{
		ResponderResources: p.ResponderResources, InitiatorDepth: p.InitiatorDepth, FlowControl: p.FlowControl,
		RetryCount: p.RetryCount, RNRRetryCount: p.RNRRetryCount, SRQ: p.SRQ, QPN: p.RemoteQPN,
	}
}

// replied takes the peer's acceptance: the queue pair is made ready, then the
// peer is told.
func (id *ID) replied(ev ibcm.Event) {
	m := id.mgr
	err := m.command(func(a *ibcm.Agent, _ monotime.Time) (err error) {
		id.params, err = a.QPParams(id.conn)
		return err
	})
	if err != nil {
		return // over already; another event says so
	}
	id.state = stReplied
	out := Event{Type: ConnectResponse, PrivateData: ev.PrivateData, Conn: connParam(&ev.Params)}
	if id.qp == nil {
		id.raise(out)
		return
	}
	if err = id.readyQP(); err == nil {
		err = id.establish()
	}
	if err != nil {
		_ = m.command(func(a *ibcm.Agent, now monotime.Time) error {
			return a.Reject(now, id.conn, cm.RejConsumer, nil, nil)
		})
		id.over(Event{Type: ConnectError, Err: err})
		return
	}
	out.Type = Established
	id.raise(out)
}

// over ends an attempt to connect.
func (id *ID) over(ev Event) {
	_ = id.failQP() // it may be gone; the event counts
	id.state = stDisconnected
	id.raise(ev)
}

// resolved takes the answer to a SIDR_REQ.
func (id *ID) resolved(ev ibcm.Event) {
	if ev.SIDRStatus != cm.SIDRSuccess {
		id.state = stDisconnected
		id.raise(Event{
			Type: Unreachable, PrivateData: ev.PrivateData,
			Err: &UnservedError{ev.SIDRStatus},
		})
		return
	}
	id.state = stEstablished
	id.raise(Event{Type: Established, PrivateData: ev.PrivateData, UD: UDParam{
		PrivateData: ev.PrivateData, AH: id.ahAttr(), QPN: ev.QPN, QKey: ev.QKey,
	}})
}
