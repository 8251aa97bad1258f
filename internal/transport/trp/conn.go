// SPDX-License-Identifier: BSD-2-Clause

package trp

import (
	"net"
	"net/netip"

	"verbena/ib"
	"verbena/internal/congestion"
	"verbena/internal/engine"
	"verbena/internal/iwarp/rdmap"
	"verbena/internal/iwarp/trp"
	"verbena/internal/monotime"
	"verbena/internal/qp"
	"verbena/internal/sys/udp"
	wire "verbena/internal/wire/trp"
)

// Conn is a queue pair of iWARP on a TRP association, which has a UDP port of
// its own. The set-up is the association's, too: there is nothing but the queue
// pair from the first datagram on.
//
//	Dial    ── Request ─►   Listener ─ onRequest ─► Accept, from another port
//	onLink     Established, Rejected, Unreachable; then Disconnected, Closed
//
// When the queue pair is closed before its association is over, a linger
// says the last words.
type Conn struct {
	engine.Conn
	trp *Transport // immutable

	// guarded by mu
	assoc    *rdmap.Association // Conn.machine
	port     *Port              // nil without an association
	listener *Listener          // that the request came to; nil of a client
	onLink   func(trp.Event)
	events   []trp.Event    // for onLink
	telling  bool           // somebody calls onLink
	log      congestion.Log // of the path, in a capture
}

// config has an idle peer asked after 5 s: one whose process was killed is known
// to be gone by ICMP then, one that the network lost half a minute later.
var config = trp.Config{KeepAlive: 5 * monotime.Second}

// NewConn makes a queue pair of iWARP over TRP, which counts in counters. makeMachine is called
// with its number; onEvent later, without locks, with each event.
func (t *Transport) NewConn(counters *engine.DeviceCounters,
	makeMachine func(ib.QPN) *rdmap.Association, onEvent func(ib.EventType),
	lane *engine.Lane) (*engine.Conn, error) {
	c := &Conn{trp: t}
	o := engine.ConnOptions{Counters: counters, OnEvent: onEvent, Lane: lane}
	err := t.eng.NewConn(&c.Conn, c, o,
		func(qpn ib.QPN) qp.Machine {
			c.assoc = makeMachine(qpn)
			return c.assoc
		})
	if err != nil {
		return nil, err
	}
	return &c.Conn, nil
}

// ConnOf returns the Conn of a queue pair of TRP; ok is false for others.
func ConnOf(c *engine.Conn) (t *Conn, ok bool) {
	t, ok = c.Transport().(*Conn)
	return t, ok
}

// Dial asks a server for an association, from a port that is the connection's from then on, also
// after an error. onLink takes the association's events. The thread that finds out calls it, one
// call at a time and without locks, until the Conn is closed.
//
// Errors: trp.ErrState unless the queue pair is in INIT and has no association;
// trp.ErrPrivateData; net.ErrClosed.
func (c *Conn) Dial(p *Port, server netip.AddrPort, s wire.Setup, onLink func(trp.Event)) error {
	bytes := segmentBytes(p.addr.Addr())
	to := netip.AddrPortFrom(server.Addr().WithZone(""), server.Port())
	return c.begin(p, nil, onLink, func(now monotime.Time) error {
		return c.assoc.Dial(now, config, to, s, bytes)
	})
}

// Accept accepts a request with a queue pair. It answers from local, which is
// the address that the request came to, as sockets want it.
//
// Errors: those of Dial; net.ErrClosed if the request was answered; those of
// Bind.
func (c *Conn) Accept(r *Request, local netip.Addr, s wire.Setup, onLink func(trp.Event)) error {
	if len(s.PrivateData) > wire.MaxPrivateBytes {
		return trp.ErrPrivateData
	}
	p, err := c.trp.Bind(netip.AddrPortFrom(local, 0))
	if err != nil {
		return err
	}
	if !r.answer() {
		p.Close()
		return net.ErrClosed
	}
	bytes := segmentBytes(local)
	err = c.begin(p, r.listener, onLink, func(now monotime.Time) error {
		return c.assoc.Accept(now, r.conn, s, bytes)
	})
	if err != nil {
		_ = r.listener.reject(r, local, nil) // the first error counts
	}
	return err
}

// begin gives the connection its port, and starts it.
func (c *Conn) begin(p *Port, l *Listener, onLink func(trp.Event),
	start func(now monotime.Time) error) error {
	c.Lock()
	c.AwaitPump() // the port of an association before may be written to
	err := error(net.ErrClosed)
	now := monotime.Now()
	release := func() {}
	if c.port != nil {
		release = leave(c.port, c.listener, c.assoc.Conn())
	}
	if !c.Closed() {
		err = start(now)
	}
	if err != nil {
		c.Unlock()
		p.Close()
		return err
	}
	c.port, c.listener, c.onLink, c.events = p, l, onLink, nil
	p.give(c)
	if l != nil {
		l.own(c.assoc.Conn(), c)
	}
	c.PumpUnlock(now)
	release()
	return nil
}

// leave returns the function that gives back the port of an association that is over. It is to be
// called without Conn.mu.
func leave(p *Port, l *Listener, conn *trp.Conn) func() {
	return func() {
		if l != nil {
			l.forget(conn)
		}
		p.drop()
	}
}

// Disconnect ends the association when all that is posted has been sent and
// answered.
func (c *Conn) Disconnect() {
	c.Lock()
	if c.Closed() {
		c.Unlock()
		return
	}
	now := monotime.Now()
	c.assoc.Disconnect(now)
	c.PumpUnlock(now)
}

// Leave sends the peer the end of the association of a process that ends. The
// queue pair fails nothing: threads that still run would take it for an error of
// the peer's.
func (c *Conn) Leave() {
	c.Lock()
	defer c.Unlock()
	c.AwaitPump()
	if c.Closed() || c.port == nil {
		return
	}
	p, now := c.port, monotime.Now()
	c.port = nil
	p.give(nil)
	c.assoc.Conn().Abort(now)
	p.drain(now, c.Mutex(), c.assoc.Conn(), nil)
}

// take handles datagrams to the connection's own port.
func (c *Conn) take(now monotime.Time, all []udp.Message) {
	c.Lock()
	if c.Closed() {
		c.Unlock()
		return
	}
	for i := range all {
		m := &all[i]
		for j := range m.Segments() {
			c.assoc.HandleInput(now, m.Src, m.Segment(j))
		}
	}
	c.Heard(now)
	c.PumpUnlock(now)
}

func (c *Conn) refused(now monotime.Time, dst netip.AddrPort) {
	c.Lock()
	if c.Closed() {
		c.Unlock()
		return
	}
	c.assoc.HandleRefused(now, dst)
	c.PumpUnlock(now)
}

// repeated takes a Request of the client that came to the listener again.
func (c *Conn) repeated(now monotime.Time, from netip.AddrPort, datagram []byte) {
	c.Lock()
	if c.Closed() {
		c.Unlock()
		return
	}
	c.assoc.HandleInput(now, from, datagram)
	c.PumpUnlock(now)
}

// FlushOutput implements engine.Transport.
func (c *Conn) FlushOutput(now monotime.Time) {
	if c.port == nil {
		return
	}
	c.port.drain(now, c.Mutex(), c.assoc, func() string {
		if conn := c.assoc.Conn(); conn != nil && c.log.Due(now) {
			return engine.Comment(now, &c.log, c.QPN(), conn.PathState())
		}
		return ""
	})
	for ev, ok := c.assoc.PollLink(); ok; ev, ok = c.assoc.PollLink() {
		c.events = append(c.events, ev)
	}
	if len(c.events) > 0 {
		c.SetAfter(c.tell)
	}
}

// tell calls onLink with changes, in order, even if several threads come here.
func (c *Conn) tell() {
	c.Lock()
	if c.telling {
		c.Unlock()
		return
	}
	c.telling = true
	for len(c.events) > 0 && !c.Closed() {
		ev, f := c.events[0], c.onLink
		c.events = c.events[1:]
		release := func() {}
		if l := c.listener; l != nil && ev.Kind == trp.EventEstablished {
			conn := c.assoc.Conn()
			release = func() { l.established(conn) }
		}
		if ev.Kind == trp.EventClosed && c.port != nil { // Leave has given it back
			release = leave(c.port, c.listener, c.assoc.Conn())
			c.port, c.listener = nil, nil
		}
		c.Unlock()
		release()
		f(ev)
		c.Lock()
	}
	c.telling = false
	c.Unlock()
}

// NotePost implements engine.Transport.
func (c *Conn) NotePost() {}

// FlushDelayedAck implements engine.Transport.
func (c *Conn) FlushDelayedAck(monotime.Time) {}

// PrepareModify implements engine.Transport.
func (c *Conn) PrepareModify(attr *ib.QPAttr, mask ib.QPAttrMask,
	_ netip.Addr) (func(monotime.Time), error) {
	return func(now monotime.Time) { c.assoc.Modify(now, attr, mask) }, nil
}

// Route implements engine.Transport.
func (c *Conn) Route() engine.Route {
	if c.port == nil || c.assoc.Conn() == nil {
		return engine.Route{}
	}
	conn := c.assoc.Conn()
	p := conn.PathState()
	return engine.Route{Via: engine.ViaUDP, Local: c.port.addr, Peer: conn.Peer(), Path: &p}
}

// Detach implements engine.Transport: it lets the peer know, and leaves repetitions to a linger.
func (c *Conn) Detach() (release func()) {
	if c.port == nil {
		return func() {}
	}
	now := monotime.Now()
	c.assoc.Abort(now)
	c.port.drain(now, c.Mutex(), c.assoc, nil)
	p, l, conn := c.port, c.listener, c.assoc.Release() // the linger's lock guards it from now on
	c.port, c.listener = nil, nil
	return func() { c.trp.linger(p, l, conn) }
}
