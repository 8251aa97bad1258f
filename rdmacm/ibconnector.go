// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"errors"
	"net/netip"
	"syscall"

	"verbena/ib"
	"verbena/internal/cm/ibcm"
	"verbena/internal/monotime"
	"verbena/internal/wire/cm"
)

// ibConnector connects an identifier by the InfiniBand specification's
// connection manager. Its fields are guarded by the identifier's mu.
type ibConnector struct {
	*ID
	ib       *ibManager
	bound    *binding
	listener ibcm.ListenerID
	conn     ibcm.ConnID   // 0 without
	params   ibcm.QPParams // of the connection, as far as agreed
	psn      ib.PSN        // that the peer's packets begin with, on the ID of a request
	named    ib.QPN        // the queue pair that the application modifies by itself; 0 without
	leaving  bool          // the application has called Disconnect
	willSet  bool
	pending  *pendingDisconnect // not raised yet; nil if there is none
}

func (b *ibManager) newConnector(id *ID) *ibConnector { return &ibConnector{ID: id, ib: b} }

func (b *ibManager) connectorFor(id *ID) connector { return b.newConnector(id) }

// has implements server: RoCEv2 has all that serves allows.
func (b *ibManager) has(PortSpace, ib.QPType) bool { return true }

func (b *ibManager) attach(at localAddr) error { return b.m.svc.Listen(at.addr) }

func (c *ibConnector) begun() bool { return c.conn != 0 }

func (c *ibConnector) bind(ip netip.Addr, port uint16, shared bool) (uint16, error) {
	// a port that the system chose is the identifier's alone
	reuse := c.reuse && (shared || port != 0)
	b, err := c.ib.ports.bind(binding{scope: scopeOf(ip, c.afOnly), reuse: reuse, shared: shared},
		c.ps, port)
	if err != nil {
		return 0, err
	}
	c.bound = b
	if b.shared { // requests come here from now on
		_ = c.ib.command(func(a *ibcm.Agent, now monotime.Time) error {
			a.Expect(now, b.service)
			return nil
		})
		if ip.IsUnspecified() {
			_ = c.openAll() // Listen reports ports that cannot be opened
		}
	}
	return b.service.Port(), nil
}

func (c *ibConnector) qpDestroyed() {} // the connection is of its own

// maxRequestPrivate returns how much private data the application may send with a request, in
// bytes: the message's room less the IP header in front of it.
func (c *ibConnector) maxRequestPrivate() int {
	if c.datagrams() {
		return cm.SIDRREQPrivateSize - cm.IPHeaderSize // 180
	}
	return cm.REQPrivateSize - cm.IPHeaderSize // 56
}

func (c *ibConnector) connect(p *ConnParam) error {
	if err := checkPrivate(p.PrivateData, c.maxRequestPrivate()); err != nil {
		return err
	}
	h := cm.IPHeader{Port: c.local.Port(), Src: c.local.Addr().WithZone(""),
		Dst: c.peer.Addr().WithZone("")}
	private := append(h.Append(nil), p.PrivateData...)
	path := ibcm.Path{Local: c.at.addr, Remote: c.peer.Addr()}
	service := cm.NewServiceID(c.ps, c.peer.Port())
	if c.datagrams() {
		return c.start(func(a *ibcm.Agent, now monotime.Time) (ibcm.ConnID, error) {
			return a.ResolveSIDR(now,
				ibcm.SIDRParams{Path: path, ServiceID: service, PrivateData: private})
		})
	}
	if err := checkRetries(p); err != nil {
		return err
	}
	qpn, srq, transport, err := c.endpoint(p)
	if err != nil {
		return err
	}
	random := c.mgr.random
	req := ibcm.ConnectParams{
		Path: path, ServiceID: service, Service: transport, QPN: qpn,
		PSN: ib.NewPSN(uint32(random())), PathMTU: c.at.mtu(),
		ResponderResources: depth(p.ResponderResources, MaxRdAtomic),
		InitiatorDepth:     depth(p.InitiatorDepth, MaxRdAtomic), FlowControl: p.FlowControl,
		RetryCount: p.RetryCount, RNRRetryCount: p.RNRRetryCount, SRQ: srq, TrafficClass: c.tos,
		ECE: p.ECE, FlowLabel: uint32(random()) & (1<<20 - 1),
		PrivateData: private, ACKTimeout: c.ackCode,
	}
	return c.start(func(a *ibcm.Agent, now monotime.Time) (ibcm.ConnID, error) {
		return a.Connect(now, req)
	})
}

// start begins a request and notes its connection before an answer can come.
func (c *ibConnector) start(f func(a *ibcm.Agent, now monotime.Time) (ibcm.ConnID, error)) error {
	err := c.ib.command(func(a *ibcm.Agent, now monotime.Time) error {
		if c.conn != 0 { // of an attempt before
			delete(c.ib.conns, c.conn)
			a.Destroy(now, c.conn)
		}
		conn, err := f(a, now)
		if err == nil {
			c.conn, c.leaving = conn, false
			c.ib.conns[conn] = c
		}
		return err
	})
	if errors.Is(err, ibcm.ErrTooMany) {
		return fail(syscall.ENOMEM, "Connect", "too many connections")
	}
	return err
}

func checkRetries(p *ConnParam) error {
	if p.RetryCount > 7 {
		return invalid("RetryCount", "%d: must be 0 to 7", p.RetryCount)
	}
	if p.RNRRetryCount > 7 {
		return invalid("RNRRetryCount", "%d: must be 0 to 7", p.RNRRetryCount)
	}
	return nil
}

// endpoint returns the queue pair of the connection: the ID's, or the one that p names.
func (c *ibConnector) endpoint(p *ConnParam) (qpn ib.QPN, srq bool, t cm.TransportService,
	err error) {
	if c.qp == nil {
		if p.QPN <= ib.QP1 || p.QPN >= ib.QPMulticast {
			return 0, false, 0, invalid("QPN", "%v: the ID has no queue pair, so name one", p.QPN)
		}
		c.named = p.QPN
		return p.QPN, p.SRQ, serviceOf(c.typ), nil
	}
	_, init := c.qp.Query()
	return c.qp.QPN(), init.SRQ != nil, serviceOf(c.typ), nil
}

// establish sends the RTU.
func (c *ibConnector) establish() error {
	err := c.ib.command(func(a *ibcm.Agent, now monotime.Time) error {
		return a.Establish(now, c.conn, nil)
	})
	if err != nil {
		return invalid("Establish", "%v", err)
	}
	c.setWill()
	return nil
}

func (c *ibConnector) peerSpoke() {
	if c.conn == 0 {
		return
	}
	_ = c.ib.command(func(a *ibcm.Agent, now monotime.Time) error {
		a.CommEstablished(now, c.conn)
		return nil
	})
}

func (c *ibConnector) disconnect() error {
	if err := c.failQP(); err != nil || c.state != stEstablished && c.state != stDisconnected {
		return err
	}
	c.leaving = true
	err := c.ib.command(func(a *ibcm.Agent, now monotime.Time) error {
		return a.Disconnect(now, c.conn, nil)
	})
	c.clearWill() // after the DREQ: a process killed in between sends two, not none
	var wrong *ibcm.StateError
	if errors.As(err, &wrong) {
		return nil // released meanwhile, by the peer or before
	}
	return err
}

// destroy releases a connection, refuses a request, closes a listener.
func (c *ibConnector) destroy() {
	_ = c.ib.command(func(a *ibcm.Agent, now monotime.Time) error {
		if c.conn != 0 {
			delete(c.ib.conns, c.conn)
			a.Destroy(now, c.conn)
		}
		if c.listener != 0 {
			delete(c.ib.listeners, c.listener)
			return a.CloseListener(now, c.listener)
		}
		return nil
	})
	c.clearWill()
	c.ib.ports.release(c.bound)
}

// setWill leaves a DREQ, or the answer to one, to be sent if this process dies.
func (c *ibConnector) setWill() {
	var will ibcm.Datagram
	_ = c.ib.command(func(a *ibcm.Agent, _ monotime.Time) error {
		will, c.willSet = a.Will(c.conn)
		return nil
	})
	if c.willSet {
		// Without it the peer learns by its own time-outs.
		_ = c.ib.svc.SetWill(uint64(c.conn), will.Path.Local, will.Path.Remote, will.MAD[:])
	}
}

func (c *ibConnector) clearWill() {
	if c.willSet {
		c.willSet = false
		c.ib.svc.ClearWill(uint64(c.conn))
	}
}
