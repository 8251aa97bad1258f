// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"errors"
	"net/netip"
	"syscall"

	"verbena/ib"
	"verbena/internal/cm/iwcm"
	"verbena/internal/core"
	"verbena/internal/engine"
	"verbena/internal/iwarp/mpa"
	"verbena/internal/monotime"
	"verbena/internal/transport/iwarp"
)

// iwListener is a TCP port of an identifier.
type iwListener struct {
	// immutable once it is open
	c     *iwConnector
	ports []*iwarp.Listener // of both families, for all addresses of both

	// guarded by manager.mu
	options mpa.Options    // from when it is listened to
	book    *iwcm.Listener // likewise; nil before and when it is closed
}

// listenPatience bounds the time for which streams wait for the listener of a bound port: some
// applications name the port to their peer before they listen. Later they are refused.
const listenPatience = monotime.Second

// tcpBacklog is the number of streams that the system holds for a port that does not listen yet, or
// whose listener is not running: Linux's default.
const tcpBacklog = 4096

// open takes a port, and returns its number.
func (l *iwListener) open(e *engine.Engine, ip netip.Addr, port uint16) (uint16, error) {
	for tries := ephemeralTries; ; tries-- {
		l.ports = nil
		n, err := l.tryOpen(e, ip, port)
		if err == nil {
			return n, nil
		}
		for _, p := range l.ports {
			p.Close()
		}
		// A port that the system chose for one family may be another's in the other.
		if port != 0 || tries == 0 || !errors.Is(err, syscall.EADDRINUSE) {
			return port, err
		}
	}
}

func (l *iwListener) tryOpen(e *engine.Engine, ip netip.Addr, port uint16) (uint16, error) {
	addrs := []netip.Addr{ip}
	if scope := scopeOf(ip, l.c.afOnly); !scope.IsValid() {
		addrs = append(addrs, netip.IPv4Unspecified())
	}
	for _, a := range addrs {
		p, err := iwarp.Of(e).Listen(netip.AddrPortFrom(a, port), tcpBacklog, l.take)
		if err != nil {
			return 0, err
		}
		l.ports = append(l.ports, p)
		port = p.Addr().Port()
	}
	return port, nil
}

// listen takes streams at the bound port, which is taken now where the address
// was that to dial from.
func (c *iwConnector) listen(backlog int) error {
	if c.bound == nil {
		ip := c.local.Addr()
		port, err := c.bind(ip, c.local.Port(), true)
		if err != nil {
			return err
		}
		c.local = netip.AddrPortFrom(ip, port)
	}
	c.mgr.mu.Lock()
	c.bound.options = c.iw.options(!c.noCRC)
	c.bound.book = iwcm.NewListener(backlog, engine.Descriptors()/4, &c.iw.count)
	c.bound.book.Refused = c.bound.refusedLocked
	c.mgr.mu.Unlock()
	if err := c.bound.start(); err != nil {
		c.unbind()
		return err
	}
	return nil
}

// start has streams taken, or refused while nobody listens.
func (l *iwListener) start() error {
	w := l.c.iw
	w.m.mu.Lock()
	delete(w.bound, l)
	w.m.mu.Unlock()
	for _, p := range l.ports {
		if err := p.Start(); err != nil {
			return err
		}
	}
	return nil
}

// take begins with a stream that came.
func (l *iwListener) take(sock *iwarp.Stream) iwarp.StreamEvents {
	w := l.c.iw
	w.m.mu.Lock()
	defer w.m.kick()
	defer w.m.mu.Unlock()
	if l.book == nil {
		return nil
	}
	conn, dropped := l.book.Take(monotime.Now(), sock.Remote().Addr().Unmap(), l.options)
	if dropped != nil {
		w.touchLocked(w.streams[dropped])
	}
	s := &iwStream{iw: w, conn: conn, listener: l, sock: sock}
	w.addLocked(s)
	return s.newTurn()
}

// request makes identifiers for the requests that the backlog has room for. It
// runs on the manager's goroutine.
func (l *iwListener) request() {
	w := l.c.iw
	for {
		w.m.mu.Lock()
		var s *iwStream
		if l.book != nil {
			s = w.streams[l.book.Next()] // nil of nil
		}
		w.m.mu.Unlock()
		if s == nil {
			return
		}
		if id, ev := l.identifier(s); id != nil {
			l.c.raiseRequest(ev)
		}
	}
}

// identifier makes an identifier for a request, and the event that brings it. A request that cannot
// have one is refused.
func (l *iwListener) identifier(s *iwStream) (*ID, *Event) {
	w, m := l.c.iw, l.c.mgr
	m.mu.Lock()
	sock, open := s.sock, s.conn.State() == iwcm.Requested
	m.mu.Unlock()
	if sock == nil || !open {
		w.update(s, func(c *iwcm.Conn, _ monotime.Time) { c.Destroy() }) // the peer has gone
		return nil, nil
	}
	at, err := m.locate(IWARP, unmapped(sock.Local()).Addr())
	if err != nil || !m.join() {
		m.noteRefusal(refusalOf(sock, noIdentifier))
		w.update(s, func(c *iwcm.Conn, _ monotime.Time) { c.Destroy() })
		return nil, nil
	}
	id := &ID{
		mgr: m, ps: l.c.ps, kind: IWARP, state: stRequested, typ: ib.QPTypeRC, at: at,
		local: netip.AddrPortFrom(at.addr, sock.Local().Port()), peer: unmapped(sock.Remote()),
		noCRC: l.c.noCRC,
	}
	c := w.newConnector(id)
	c.stream, id.proto = s, c
	m.mu.Lock()
	defer m.mu.Unlock()
	s.owner = c
	m.ids[id] = struct{}{}
	ev := &Event{Type: ConnectRequest, ID: id, ListenID: l.c.ID, PrivateData: s.conn.PrivateData()}
	ev.Conn.InitiatorDepth, ev.Conn.ResponderResources = peerDepths(s.conn)
	return id, ev
}

// refusedLocked notes a stream that was given up before the application has answered its request.
// manager.mu is held.
func (l *iwListener) refusedLocked(c *iwcm.Conn, why iwcm.Fault) {
	if s := l.c.iw.streams[c]; s != nil && s.sock != nil && core.Logs() {
		l.c.mgr.noteRefusalLocked(refusalOf(s.sock, faultReasons[why]))
	}
}

var faultReasons = [...]reason{
	iwcm.FaultTimeout:  "there was no MPA request in time, or no room for it",
	iwcm.FaultProtocol: "no MPA request, or bytes behind it",
	iwcm.FaultRevision: "a revision of MPA that is not spoken",
	iwcm.FaultCrowded:  "too many streams wait",
	iwcm.FaultLocal:    "",
}

// refusalOf returns the refusal of a stream.
func refusalOf(sock *iwarp.Stream, why reason) refusal {
	return refusal{kind: IWARP, local: unmapped(sock.Local()), peer: unmapped(sock.Remote()),
		why: why}
}

// unmapped returns an address as the rest of the package has it.
func unmapped(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

// close gives the port back. It closes streams that no application knows, and refuses requests
// among them.
func (l *iwListener) close() {
	w := l.c.iw
	for _, p := range l.ports {
		p.Close()
	}
	w.m.mu.Lock()
	delete(w.bound, l)
	if l.book != nil {
		for _, conn := range l.book.Close() {
			s := w.streams[conn]
			if s.sock != nil && core.Logs() {
				w.m.noteRefusalLocked(refusalOf(s.sock, listenerClosed))
			}
			w.touchLocked(s)
		}
		l.book = nil
	}
	w.m.mu.Unlock()
	w.m.kick()
}
