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

// iwConnector connects an identifier by MPA's set-up of TCP streams. Its fields
// are guarded by the identifier's mu.
type iwConnector struct {
	*ID
	iw     *iwManager
	stream *iwStream   // nil without
	bound  *iwListener // a port, listened to or not
}

func (w *iwManager) newConnector(id *ID) *iwConnector { return &iwConnector{ID: id, iw: w} }

func (w *iwManager) connectorFor(id *ID) connector { return w.newConnector(id) }

func (w *iwManager) has(ps PortSpace, _ ib.QPType) bool { return ps == TCP }

// attach implements server: each listener has its own socket.
func (w *iwManager) attach(localAddr) error { return nil }

// engine returns the engine of the ID's device.
func (c *iwConnector) engine() *engine.Engine { return (*core.Context)(c.at.verbs).Engine() }

func (c *iwConnector) begun() bool { return c.stream != nil }
func (c *iwConnector) peerSpoke()  {} // the queue pair sees the first FPDU by itself

func (c *iwConnector) qpDestroyed() { c.streamGone() }

// streamGone raises Disconnected where the queue pair was destroyed. Its stream went with it, and
// reports no end.
//
// Source: siw's destroy_qp, on which iw_cm raises it too.
func (id *ID) streamGone() {
	if id.state == stEstablished {
		id.state = stDisconnected
		id.raise(Event{Type: Disconnected})
	}
}

// establish has nothing to do: an identifier that may connect has a queue pair.
func (c *iwConnector) establish() error {
	return invalid("Establish", "an iWARP connection is established by its queue pair")
}

// bind takes the TCP port if it is to be shared: streams that come before listen wait for it, see
// listenPatience. A port to dial from is taken when the ID connects, and 0 until then.
func (c *iwConnector) bind(ip netip.Addr, port uint16, shared bool) (uint16, error) {
	if !shared {
		return port, nil
	}
	e, err := c.mgr.engineOf(IWARP)
	if err != nil {
		return 0, err
	}
	l := &iwListener{c: c}
	if port, err = l.open(e, ip, port); err != nil {
		return 0, portError(err, ip, port)
	}
	c.bound = l
	c.mgr.mu.Lock()
	c.iw.bound[l] = monotime.Now().Add(listenPatience)
	c.mgr.mu.Unlock()
	c.mgr.kick()
	return port, nil
}

// portError returns the error of a port that cannot be opened.
func portError(err error, ip netip.Addr, port uint16) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fail(syscall.EADDRINUSE, "address", "TCP port %d of %v is taken", port, ip)
	}
	return err
}

// endpoint refuses an identifier that lacks a part of an iWARP connection.
func (c *iwConnector) endpoint(call string, p *ConnParam) error {
	if c.qp == nil {
		return invalid(call, "the ID has no queue pair: an iWARP connection is set up with it")
	}
	return checkPrivate(p.PrivateData, maxMPAPrivate)
}

// maxMPAPrivate is the most private data that MPA's frames of revision 2 carry.
var maxMPAPrivate = mpa.MaxPrivateData(2)

func (c *iwConnector) connect(p *ConnParam) error {
	if err := c.endpoint("Connect", p); err != nil {
		return err
	}
	o := c.iw.options(!c.noCRC)
	o.IRD, o.ORD = uint16(depth(p.ResponderResources, MaxRdAtomic)), uint16(depth(p.InitiatorDepth,
		MaxRdAtomic))
	o.RTR = mpa.RTRs(mpa.RTRWrite)
	if o.ORD > 0 {
		// A READ is answered before anything follows, so that a peer that overlooks it, as siw may,
		// shows that.
		o.RTR = mpa.RTRs(mpa.RTRRead)
	}
	o.PrivateData = p.PrivateData
	m := c.mgr
	m.mu.Lock()
	conn, err := iwcm.Dial(monotime.Now(), o, &c.iw.count)
	if err != nil {
		m.mu.Unlock()
		return err
	}
	s := &iwStream{iw: c.iw, conn: conn, owner: c, engine: c.engine(), local: c.local,
		remote: c.peer}
	c.stream = s
	c.iw.addLocked(s)
	m.mu.Unlock()
	c.unbind() // the bound port is the one to dial from
	local, err := c.iw.open(s)
	if err != nil && faultOf(err) == iwcm.FaultReset {
		// no answer of the network's, which is an event
		c.stream = nil
		c.iw.update(s, func(conn *iwcm.Conn, _ monotime.Time) {
			s.owner = nil
			conn.Destroy()
		})
		return portError(err, c.local.Addr(), c.local.Port())
	}
	if err == nil {
		c.local = netip.AddrPortFrom(c.local.Addr(), local.Port())
	}
	return nil
}

func (c *iwConnector) unbind() {
	if c.bound != nil {
		c.bound.close()
		c.bound = nil
	}
}

// accept gives the stream to the queue pair, which sends the Reply before
// anything else.
func (c *iwConnector) accept(p *ConnParam) error {
	if err := c.endpoint("Accept", p); err != nil {
		return err
	}
	m, s := c.mgr, c.stream
	m.mu.Lock()
	served, asked := peerDepths(s.conn)
	ird, ord := depth(p.ResponderResources, asked), depth(p.InitiatorDepth, served)
	if err := s.conn.Accept(monotime.Now(), uint16(ird), uint16(ord), p.PrivateData); err != nil {
		m.mu.Unlock()
		return refusedCommand("Accept", err)
	}
	reply, _ := s.conn.PollOutput()
	sock, in := c.handOverLocked()
	in.First = reply
	m.mu.Unlock()
	m.kick()
	if err := (*core.QP)(c.qp).ConnectStream(sock, in); err != nil {
		c.iw.update(s, func(conn *iwcm.Conn, _ monotime.Time) { conn.Destroy() })
		_ = c.failQP() // it may be there already; the error that counts is the first
		return err
	}
	return nil
}

// handOverLocked takes the stream from its connection, for the queue pair.
// manager.mu is held.
func (c *iwConnector) handOverLocked() (*iwarp.Stream, iwarp.Connected) {
	s := c.stream
	sock := s.sock
	settled, early := s.conn.HandOver()
	s.sock, s.turn = nil, nil
	c.iw.touchLocked(s)
	return sock, iwarp.Connected{
		Settled: settled, Early: early, Extensions: settled.Extensions,
		OnReady: func() {
			c.iw.update(s, func(conn *iwcm.Conn, _ monotime.Time) { conn.HandleReady() })
		},
		OnClose: func() {
			c.iw.update(s, func(conn *iwcm.Conn, _ monotime.Time) {
				conn.HandleEnd(iwcm.FaultNone)
			})
		},
	}
}

// peerDepths returns how many READs a peer serves at a time and how many it asks for. A peer that
// names no numbers gets ours.
func peerDepths(conn *iwcm.Conn) (served, asked uint8) {
	ird, ord, said := conn.Depths()
	if !said {
		return deviceRdAtomic, deviceRdAtomic
	}
	return uint8(min(ird, deviceRdAtomic)), uint8(min(ord, deviceRdAtomic))
}

// refusedCommand turns a connection's refusal into the application's error: the peer has ended it
// in the meantime.
func refusedCommand(call string, err error) error {
	var wrong *iwcm.StateError
	switch {
	case errors.As(err, &wrong):
		return fail(syscall.ECONNRESET, call, "the peer has given up")
	case errors.Is(err, mpa.ErrPrivateData):
		return invalid("PrivateData", "%v", err)
	}
	return err
}

// reject ignores the reason of a refusal: MPA knows a single one.
func (c *iwConnector) reject(call string, _ bool, private []byte) error {
	if err := checkPrivate(private, maxMPAPrivate); err != nil {
		return err
	}
	var err error
	c.iw.update(c.stream, func(conn *iwcm.Conn, _ monotime.Time) { err = conn.Reject(private) })
	c.iw.flush(c.stream)
	if err != nil {
		return refusedCommand(call, err)
	}
	return nil
}

// disconnect closes the stream when all that was posted is sent and answered.
func (c *iwConnector) disconnect() error {
	switch c.state {
	case stEstablished:
		return (*core.QP)(c.qp).DisconnectStream()
	case stDisconnected:
		return nil // the queue pair went with the stream
	}
	return c.failQP()
}

// attrFor fills the attributes for INIT. From there the stream takes a queue
// pair to RTS.
func (c *iwConnector) attrFor(s ib.QPState, _ ib.QPType) (a ib.QPAttr, mask ib.QPAttrMask,
	known bool) {
	return iwarpAttr(s)
}

// iwarpAttr returns the attributes of an iWARP queue pair for a state. Those for RTR and RTS are
// none, so that a program that asks and modifies by itself does as over InfiniBand.
//
// Source: iw_cm_init_qp_attr in Linux.
func iwarpAttr(s ib.QPState) (a ib.QPAttr, mask ib.QPAttrMask, known bool) {
	a.State = s
	if s != ib.QPInit {
		return a, 0, true
	}
	a.PortNum, a.AccessFlags = 1, ib.AccessRemoteWrite|ib.AccessRemoteRead|ib.AccessRemoteAtomic
	return a, ib.QPStateAttr | ib.QPPKeyIndex | ib.QPPort | ib.QPAccessFlags, true
}

// destroy resets a stream, refuses a request, closes a listener.
func (c *iwConnector) destroy() {
	if s := c.stream; s != nil {
		c.iw.update(s, func(conn *iwcm.Conn, _ monotime.Time) {
			s.owner = nil
			conn.Destroy()
		})
		c.iw.flush(s)
	}
	c.unbind()
}
