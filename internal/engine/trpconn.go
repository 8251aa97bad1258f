// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"net"
	"net/netip"
	"runtime"

	"verbena/ib"
	"verbena/internal/iwarp/rdmap"
	"verbena/internal/iwarp/trp"
	"verbena/internal/monotime"
	"verbena/internal/sys/udp"
	wire "verbena/internal/wire/trp"
)

// trpConn is a queue pair of iWARP on a TRP association, which has a UDP port of
// its own. The set-up is the association's, too: there is nothing but the queue
// pair from the first datagram on.
//
//	DialTRP    ── Request ─►   TRPListener ─ onRequest ─► AcceptTRP, from another port
//	onLink     Established, Rejected, Unreachable; then Disconnected, Closed
//
// When the queue pair is closed before its association is over, a trpRemains
// says the last words.
type trpConn struct {
	Conn

	// guarded by mu
	assoc    *rdmap.Association // Conn.machine
	port     *TRPPort           // nil without an association
	listener *TRPListener       // that the request came to; nil of a client
	onLink   func(trp.Event)
	news     []trp.Event // for onLink
	telling  bool        // somebody calls onLink
}

// trpConfig has an idle peer asked after 5 s: one whose process was killed is known
// to be gone by ICMP then, one that the network lost half a minute later.
var trpConfig = trp.Config{KeepAlive: 5 * monotime.Second}

// NewTRPConn makes a queue pair of iWARP over TRP. Its counters go to the
// account. makeMachine is called with its number; onEvent later, without locks,
// with each event.
func (e *Engine) NewTRPConn(account *Account, makeMachine func(ib.QPN) *rdmap.Association, onEvent func(ib.EventType)) (*Conn, error) {
	c := &trpConn{}
	err := e.newConn(account, onEvent, &c.Conn, func(qpn ib.QPN) {
		c.assoc = makeMachine(qpn)
		c.machine, c.way = c.assoc, c
	})
	if err != nil {
		return nil, err
	}
	return &c.Conn, nil
}

// DialTRP asks a server for an association, from a port that is the connection's
// from then on, also after an error. onLink is told what becomes of it, by
// whoever finds out, one call at a time and without locks; not any more once the
// Conn is closed.
//
// Errors: trp.ErrState unless the queue pair is in INIT and has no association;
// trp.ErrPrivateData; net.ErrClosed.
func (c *Conn) DialTRP(p *TRPPort, server netip.AddrPort, s wire.Setup, onLink func(trp.Event)) error {
	t := c.way.(*trpConn)
	bytes := segmentBytes(p.addr.Addr())
	to := netip.AddrPortFrom(server.Addr().WithZone(""), server.Port())
	return t.begin(p, nil, onLink, func(now monotime.Time) error {
		return t.assoc.Dial(now, trpConfig, to, s, bytes)
	})
}

// AcceptTRP accepts a request with a queue pair. It answers from local, which is
// the address that the request came to, as sockets want it.
//
// Errors: those of DialTRP; net.ErrClosed if the request was answered; those of
// BindTRP.
func (c *Conn) AcceptTRP(r *TRPRequest, local netip.Addr, s wire.Setup, onLink func(trp.Event)) error {
	t := c.way.(*trpConn)
	if len(s.PrivateData) > wire.MaxPrivateBytes {
		return trp.ErrPrivateData
	}
	p, err := c.eng.BindTRP(netip.AddrPortFrom(local, 0))
	if err != nil {
		return err
	}
	if !r.answer() {
		p.Close()
		return net.ErrClosed
	}
	bytes := segmentBytes(local)
	err = t.begin(p, r.listener, onLink, func(now monotime.Time) error {
		return t.assoc.Accept(now, r.conn, s, bytes)
	})
	if err != nil {
		_ = r.listener.reject(r, local, nil) // the first error counts
	}
	return err
}

// begin gives the connection its port, and starts it.
func (c *trpConn) begin(p *TRPPort, l *TRPListener, onLink func(trp.Event), start func(now monotime.Time) error) error {
	c.mu.Lock()
	for c.pumping { // the port of an association before may be written to: one system call
		c.mu.Unlock()
		runtime.Gosched()
		c.mu.Lock()
	}
	err := error(net.ErrClosed)
	now := monotime.Now()
	release := func() {}
	if c.port != nil {
		release = leaveTRP(c.port, c.listener, c.assoc.Conn())
	}
	if !c.closed {
		err = start(now)
	}
	if err != nil {
		c.mu.Unlock()
		p.Close()
		return err
	}
	c.port, c.listener, c.onLink, c.news = p, l, onLink, nil
	p.give(c)
	if l != nil {
		l.own(c.assoc.Conn(), c)
	}
	c.pump(now)
	release()
	return nil
}

// leaveTRP returns what gives back the port of an association that is over. It
// is to be called without Conn.mu.
func leaveTRP(p *TRPPort, l *TRPListener, conn *trp.Conn) func() {
	return func() {
		if l != nil {
			l.forget(conn)
		}
		p.drop()
	}
}

// DisconnectTRP ends the association when all that is posted has been sent and
// answered.
func (c *Conn) DisconnectTRP() {
	t := c.way.(*trpConn)
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	now := monotime.Now()
	t.assoc.Disconnect(now)
	c.pump(now)
}

// LeaveTRP sends the peer the end of the association of a process that ends. The
// queue pair fails nothing: threads that still run would take it for an error of
// the peer's.
func (c *Conn) LeaveTRP() {
	t := c.way.(*trpConn)
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.pumping { // one system call
		c.mu.Unlock()
		runtime.Gosched()
		c.mu.Lock()
	}
	if c.closed || t.port == nil {
		return
	}
	p, now := t.port, monotime.Now()
	t.port = nil
	p.give(nil)
	t.assoc.Conn().Abort(now)
	p.drain(now, c.mu, t.assoc.Conn())
}

// take takes what came to the connection's own port.
func (c *trpConn) take(now monotime.Time, b *udp.RxBatch, n int) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	for i := range n {
		m := b.Message(i)
		for j := range m.Segments() {
			c.assoc.HandleInput(now, m.Src, m.Segment(j))
		}
	}
	c.pump(now)
}

func (c *trpConn) refused(now monotime.Time, dst netip.AddrPort) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.assoc.HandleRefused(now, dst)
	c.pump(now)
}

// repeated takes a Request of the client that came to the listener again.
func (c *trpConn) repeated(now monotime.Time, from netip.AddrPort, datagram []byte) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.assoc.HandleInput(now, from, datagram)
	c.pump(now)
}

func (c *trpConn) drain(now monotime.Time) {
	if c.port == nil {
		return
	}
	c.port.drain(now, c.mu, c.assoc)
	for ev, ok := c.assoc.PollLink(); ok; ev, ok = c.assoc.PollLink() {
		c.news = append(c.news, ev)
	}
	if len(c.news) > 0 {
		c.after = c.tell
	}
}

// tell calls onLink with what is new, in order, however many threads come here.
func (c *trpConn) tell() {
	c.mu.Lock()
	if c.telling {
		c.mu.Unlock()
		return
	}
	c.telling = true
	for len(c.news) > 0 && !c.closed {
		ev, f := c.news[0], c.onLink
		c.news = c.news[1:]
		release := func() {}
		if l := c.listener; l != nil && ev.Kind == trp.EventEstablished {
			conn := c.assoc.Conn()
			release = func() { l.established(conn) }
		}
		if ev.Kind == trp.EventClosed {
			release = leaveTRP(c.port, c.listener, c.assoc.Conn())
			c.port, c.listener = nil, nil
		}
		c.mu.Unlock()
		release()
		f(ev)
		c.mu.Lock()
	}
	c.telling = false
	c.mu.Unlock()
}

func (c *trpConn) posted() {}

func (c *trpConn) settle(monotime.Time) {}

func (c *trpConn) modification(attr *ib.QPAttr, mask ib.QPAttrMask, _ netip.Addr) (func(monotime.Time), error) {
	return func(now monotime.Time) { c.assoc.Modify(now, attr, mask) }, nil
}

// end lets the peer know, and leaves what may have to be repeated to a
// trpRemains.
func (c *trpConn) end() (release func()) {
	if c.port == nil {
		return func() {}
	}
	now := monotime.Now()
	c.assoc.Abort(now)
	c.port.drain(now, c.mu, c.assoc)
	p, l, conn := c.port, c.listener, c.assoc.Conn()
	c.port, c.listener = nil, nil
	return func() { c.eng.remain(p, l, conn) }
}
