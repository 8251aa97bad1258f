// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"errors"
	"net"
	"net/netip"
	"syscall"

	"verbena/ib"
	"verbena/internal/core"
	"verbena/internal/iwarp/trp"
	transporttrp "verbena/internal/transport/trp"
	wire "verbena/internal/wire/trp"
)

// trpConnector connects an identifier by TRP's set-up: a Request to the server's
// UDP port, which an Accept or a Reject answers. The queue pair sends and
// receives them by itself, so it is there before. Its fields are guarded by the
// identifier's mu.
type trpConnector struct {
	*ID
	t *trpManager
	// bound, and not yet the queue pair's; two where one address stands for both families
	ports     []*transporttrp.Port
	listeners []*transporttrp.Listener // which have the ports
	request   *transporttrp.Request    // on the ID of a request
	conn      *transporttrp.Conn       // nil without
	remote    wire.Setup               // the client's
}

func (t *trpManager) newConnector(id *ID) *trpConnector { return &trpConnector{ID: id, t: t} }

func (t *trpManager) connectorFor(id *ID) connector { return t.newConnector(id) }

func (t *trpManager) has(ps PortSpace, _ ib.QPType) bool { return ps == TCP }

// attach implements server: each port has its own socket.
func (t *trpManager) attach(localAddr) error { return nil }

func (c *trpConnector) begun() bool { return c.conn != nil || c.request != nil }

func (c *trpConnector) peerSpoke() {}

func (c *trpConnector) qpDestroyed() { c.streamGone() }

// portTries bounds the search for a port that is free in both families.
const portTries = 16

// bind opens the port. A port of TRP is one of UDP, of all programs of the host.
func (c *trpConnector) bind(ip netip.Addr, port uint16, _ bool) (got uint16, err error) {
	for range portTries {
		if got, err = c.open(ip, port); port != 0 || !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return 0, fail(syscall.EADDRINUSE, "address", "UDP port %d is taken", port)
	}
	return got, err
}

func (c *trpConnector) open(ip netip.Addr, port uint16) (uint16, error) {
	addrs := []netip.Addr{ip}
	if ip == netip.IPv6Unspecified() && !c.afOnly {
		addrs = append(addrs, netip.IPv4Unspecified())
	}
	eng, err := c.mgr.engineOf(TRP)
	if err != nil {
		return 0, err
	}
	for _, a := range addrs {
		p, err := transporttrp.Of(eng).Bind(netip.AddrPortFrom(a, port))
		if errors.Is(err, syscall.EAFNOSUPPORT) && len(addrs) == 2 {
			continue // a host without one of the families
		}
		if err != nil {
			c.closePorts()
			return 0, err
		}
		c.ports, port = append(c.ports, p), p.Addr().Port()
	}
	if len(c.ports) == 0 {
		return 0, fail(syscall.EAFNOSUPPORT, "address", "%v: the system has no such addresses", ip)
	}
	return port, nil
}

func (c *trpConnector) closePorts() {
	for _, p := range c.ports {
		p.Close()
	}
	c.ports = nil
}

func (c *trpConnector) listen(backlog int) error {
	for _, p := range c.ports {
		l, err := p.Listen(backlog, func(r *transporttrp.Request) {
			c.t.put(trpEvent{to: c, request: r})
		}, func(d transporttrp.Dropped) {
			c.mgr.noteRefusal(refusal{kind: TRP, local: d.Local, peer: d.Remote,
				why: reason(d.Why)})
		})
		if err != nil {
			return err
		}
		c.listeners = append(c.listeners, l)
	}
	c.ports = nil
	return nil
}

// queuePair returns the connection of the ID's queue pair.
func (c *trpConnector) queuePair(call string) (*transporttrp.Conn, error) {
	if c.qp == nil {
		return nil, invalid(call,
			"the ID has no queue pair: over TRP it has one before it connects")
	}
	return (*core.QP)(c.qp).TRPConn()
}

func (c *trpConnector) onLink(ev trp.Event) { c.t.put(trpEvent{to: c, link: ev}) }

func (c *trpConnector) connect(p *ConnParam) error {
	if err := checkPrivate(p.PrivateData, wire.MaxPrivateBytes); err != nil {
		return err
	}
	conn, err := c.queuePair("Connect")
	if err != nil {
		return err
	}
	port, err := c.ownPort()
	if err != nil {
		return err
	}
	s := wire.Setup{
		IRD: uint16(depth(p.ResponderResources, MaxRdAtomic)),
		ORD: uint16(depth(p.InitiatorDepth, MaxRdAtomic)), PrivateData: p.PrivateData,
	}
	if err := conn.Dial(port, c.peer, s, c.onLink); err != nil {
		return notReady("Connect", err)
	}
	c.conn = conn
	return nil
}

// ownPort gives the port out of hand, bound to the device's address, which may
// not have been known when the application bound the ID.
func (c *trpConnector) ownPort() (*transporttrp.Port, error) {
	if len(c.ports) == 1 && c.ports[0].Addr().Addr() == c.at.addr {
		p := c.ports[0]
		c.ports = nil
		return p, nil
	}
	c.closePorts()
	return transporttrp.Of((*core.Context)(c.at.verbs).Engine()).
		Bind(netip.AddrPortFrom(c.at.addr, c.local.Port()))
}

// notReady turns the engine's refusal into the application's error.
func notReady(call string, err error) error {
	if errors.Is(err, trp.ErrState) || errors.Is(err, net.ErrClosed) {
		return invalid(call, "the queue pair is not in INIT, or is connected")
	}
	return err
}

// establish is for identifiers without a queue pair, which there are none of.
func (c *trpConnector) establish() error {
	return invalid("Establish", "the queue pair has done it by itself")
}

func (c *trpConnector) accept(p *ConnParam) error {
	if err := checkPrivate(p.PrivateData, wire.MaxPrivateBytes); err != nil {
		return err
	}
	conn, err := c.queuePair("Accept")
	if err != nil {
		return err
	}
	s := wire.Setup{
		IRD: uint16(depth(p.ResponderResources, clampDepth(c.remote.ORD))),
		ORD: uint16(depth(p.InitiatorDepth, clampDepth(c.remote.IRD))), PrivateData: p.PrivateData,
	}
	if err := conn.Accept(c.request, c.at.addr, s, c.onLink); err != nil {
		return notReady("Accept", err)
	}
	c.conn = conn
	return nil
}

func clampDepth(n uint16) uint8 { return uint8(min(n, deviceRdAtomic)) }

func (c *trpConnector) reject(call string, _ bool, private []byte) error {
	if err := checkPrivate(private, wire.MaxPrivateBytes); err != nil {
		return err
	}
	if c.request == nil {
		return invalid(call, "there is no request")
	}
	err := c.request.Reject(c.at.addr, private)
	if errors.Is(err, net.ErrClosed) {
		return fail(syscall.ECONNRESET, call, "the listener is gone")
	}
	return err
}

// disconnect sends posted work and then ends the association, as rdma_disconnect(3) does on iWARP.
// Disconnected follows when the peer has answered.
func (c *trpConnector) disconnect() error {
	if c.state == stDisconnected {
		return nil
	}
	if c.state != stEstablished {
		return c.failQP()
	}
	c.conn.Disconnect()
	return nil
}

// leave ends the association of a process that ends.
func (c *trpConnector) leave() {
	c.mu.Lock()
	conn := c.conn
	c.mu.Unlock()
	if conn != nil {
		conn.Leave()
	}
}

// attrFor fills the attributes for INIT. From there the association takes a queue
// pair to RTS.
func (c *trpConnector) attrFor(s ib.QPState, _ ib.QPType) (a ib.QPAttr, mask ib.QPAttrMask,
	known bool) {
	return iwarpAttr(s)
}

func (c *trpConnector) destroy() {
	c.mu.Lock()
	listeners, request := c.listeners, c.request
	c.listeners = nil
	if c.conn != nil {
		request = nil
	}
	c.closePorts()
	c.mu.Unlock()
	for _, l := range listeners {
		l.Close()
	}
	if request != nil {
		_ = request.Reject(c.at.addr, nil) // fails where it was answered
	}
}
