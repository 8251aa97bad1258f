// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"net/netip"
	"sync"
	"syscall"

	"verbena/ib"
	"verbena/internal/core"
	"verbena/verbs"
)

// ID is a communication identifier: rdma_cm_id, the RDMA counterpart of a
// socket.
type ID struct {
	// Context is the application's own; the package does not touch it.
	Context any

	// immutable after NewID
	mgr *manager
	ps  PortSpace

	mu         sync.Mutex
	state      state // guarded by mu, as all below
	ch         *EventChannel
	at         localAddr // the device of local, once known
	local      netip.AddrPort
	peer       netip.AddrPort
	kind       Kind
	allowed    Selection // see SetDevices; empty says nothing
	kindPinned bool      // SetKind chose kind
	proto      connector
	typ        ib.QPType // the ID's kind of service, see qptype.go
	qp         *verbs.QP
	tos        uint8
	ackCode    uint8 // local ACK time-out; 0 for the default
	reuse      bool
	afOnly     bool
	noCRC      bool // of iWARP streams
	joined     []*membership
	gone       func() // of a Conn: called at Disconnected, before its receives are flushed
}

// state is the progress of an ID.
type state uint8

const (
	stIdle          state = iota // new
	stBound                      // has a local address
	stResolving                  // a peerLookup is pending
	stAddrResolved               // has a device and a peer
	stRouteResolved              // may connect
	stListening
	stConnecting  // REQ or SIDR_REQ sent
	stReplied     // the REP waits for Establish
	stRequested   // made by a request that waits for Accept
	stAccepting   // REP sent
	stEstablished // or, where datagrams are exchanged, resolved
	stDisconnected
	stDestroyed
)

var stateNames = [...]string{
	"idle", "bound", "resolving", "address resolved", "route resolved", "listening", "connecting",
	"replied", "requested", "accepting", "established", "disconnected", "destroyed",
}

func (s state) String() string { return stateNames[s] }

// NewID returns an identifier that raises its events on ch: rdma_create_id(3).
//
// Errors: EINVAL for an unknown port space; those of verbs.Open.
func NewID(ch *EventChannel, ps PortSpace) (*ID, error) {
	if ch == nil {
		return nil, invalid("channel", "is nil")
	}
	if ps != TCP && ps != UDP && ps != IB && ps != IPoIB {
		return nil, invalid("port space", "%v: must be TCP, UDP, IB or IPoIB", ps)
	}
	m, err := acquireManager()
	if err != nil {
		return nil, err
	}
	m.svc.Settle()
	return newID(m, ps, ch), nil
}

func newID(m *manager, ps PortSpace, ch *EventChannel) *ID {
	id := &ID{mgr: m, ps: ps, ch: ch, kind: RoCE, typ: usualType(ps)}
	id.proto = m.servers[id.kind].connectorFor(id)
	m.mu.Lock()
	m.ids[id] = struct{}{}
	m.mu.Unlock()
	return id
}

// Destroy gives the identifier back: rdma_destroy_id(3). It releases a connection, refuses a
// request, closes a listener. No event of the ID follows, and requests to a listener that were not
// fetched are refused. Its queue pair must be destroyed first: EBUSY.
func (id *ID) Destroy() error { return id.end(true) }

// refuseUnseen refuses a request that the application has not seen: it cannot have a queue pair.
func (id *ID) refuseUnseen() {
	id.mgr.noteRefusal(refusal{kind: id.kind, local: id.local, peer: id.peer, why: listenerClosed})
	_ = id.end(false)
}

// end is Destroy. A request that the application has seen is refused by it.
func (id *ID) end(seen bool) error {
	id.mu.Lock()
	if id.state == stDestroyed {
		id.mu.Unlock()
		return invalid("ID", "was destroyed before")
	}
	if id.qp != nil {
		id.mu.Unlock()
		return fail(syscall.EBUSY, "ID", "has a queue pair: call DestroyQP first")
	}
	if id.state == stRequested && seen {
		id.logReject(nil)
	}
	id.state = stDestroyed
	ch := id.ch
	id.mu.Unlock()

	m := id.mgr
	m.mu.Lock()
	delete(m.ids, id)
	m.mu.Unlock()
	id.proto.destroy()
	for _, ev := range ch.remove(func(ev *Event) bool { return ev.ID == id || ev.ListenID == id }) {
		if ev.ListenID == id {
			ev.ID.refuseUnseen()
		}
	}
	m.leave()
	return nil
}

// check refuses a call in the wrong state. The caller holds mu.
func (id *ID) check(call string, allowed ...state) error {
	for _, s := range allowed {
		if id.state == s {
			return nil
		}
	}
	return invalid(call, "the ID is %v", id.state)
}

// PortSpace returns the port space the ID was made in.
func (id *ID) PortSpace() PortSpace { return id.ps }

// Verbs returns the context of the device that the ID is bound to, nil while it is not bound to
// one. It is bound after ResolveAddr, on the ID of a request, and after BindAddr to an address
// that is not a wildcard. All IDs share the context; do not close it. It closes after the last
// ID has been destroyed.
func (id *ID) Verbs() *verbs.Context {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.at.verbs
}

// LocalAddr returns the local address and port: rdma_get_local_addr(3).
func (id *ID) LocalAddr() netip.AddrPort {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.local
}

// PeerAddr returns the peer's address and port: rdma_get_peer_addr(3).
func (id *ID) PeerAddr() netip.AddrPort {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.peer
}

// Channel returns the channel of the ID's events.
func (id *ID) Channel() *EventChannel {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.ch
}

// Migrate moves the ID and its events that were not fetched to another channel:
// rdma_migrate_id(3).
func (id *ID) Migrate(ch *EventChannel) error {
	if ch == nil {
		return invalid("channel", "is nil")
	}
	id.mu.Lock()
	defer id.mu.Unlock()
	old := id.ch
	id.ch = ch
	if old != ch {
		ch.put(old.remove(func(ev *Event) bool {
			return ev.ID == id && ev.ListenID == nil || ev.ListenID == id
		})...)
	}
	return nil
}

// Notify passes an asynchronous event of the ID's queue pair to the connection manager:
// rdma_notify(3). EventCommEst makes a connection established that lost its RTU.
func (id *ID) Notify(e ib.EventType) {
	id.mu.Lock()
	defer id.mu.Unlock()
	if e == ib.EventCommEst && id.state != stDestroyed {
		id.proto.peerSpoke()
	}
}

// raise puts an event on the ID's channel. The ID of a request that the application has not
// accepted gets none: the application may not have seen it yet. The caller holds mu.
//
// Source: ucma_event_handler in Linux.
func (id *ID) raise(ev Event) {
	if id.state == stRequested {
		return
	}
	if ev.Type == Disconnected && id.gone != nil {
		id.gone()
		_ = id.failQP() // it may be gone; the event counts
	}
	ev.ID = id
	id.log(&ev)
	switch ev.Type {
	case Rejected, Unreachable, ConnectError:
		core.RecordConnection(id.peer, ev.Err)
	}
	id.ch.put(&ev)
}

// onDisconnect makes the peer's end of the connection that of the queue pair. It calls f, which
// must not call the ID, and flushes work requests before the Disconnected event.
func (id *ID) onDisconnect(f func()) {
	id.mu.Lock()
	defer id.mu.Unlock()
	id.gone = f
}

// over raises the event that ends an attempt to connect. A request stays a request: its Accept
// fails. The caller holds mu.
func (id *ID) over(ev Event) {
	if id.state == stRequested {
		return
	}
	_ = id.failQP() // it may be gone; the event counts
	id.state = stDisconnected
	id.raise(ev)
}

// raiseRequest raises a ConnectRequest on a listener's channel.
func (id *ID) raiseRequest(ev *Event) {
	id.mu.Lock()
	ev.ID.ch = id.ch
	listens := id.state == stListening
	if listens {
		ev.ID.log(ev)
		id.ch.put(ev)
	}
	id.mu.Unlock()
	if !listens { // destroyed meanwhile
		ev.ID.refuseUnseen()
	}
}
