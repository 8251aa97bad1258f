// SPDX-License-Identifier: BSD-2-Clause

package rsocket

import (
	"context"
	"net"
	"net/netip"
	"sync"

	"verbena/rdmacm"
)

const (
	// comingMax bounds the connections that are in set-up or wait for Accept. Each has its buffers.
	comingMax = 64
	// requestsWaiting bounds the requests beyond them. Their peers repeat further ones only after
	// seconds.
	requestsWaiting = 1024
)

// Listener takes connections for a port: a net.Listener. As TCP does, it sets connections up before
// Accept is called.
type Listener struct {
	kind rdmacm.Kind
	cm   *rdmacm.Listener
	addr *Addr

	ctx   context.Context // ends with Close
	end   context.CancelFunc
	ready chan *Conn
	once  sync.Once
}

// Listen listens to an address: net.Listen. An empty host stands for all local addresses, port 0
// for one that the system chooses. The result is a *Listener.
//
// Errors: a *net.OpError. It wraps EADDRINUSE if the port is taken, EADDRNOTAVAIL or ENODEV if no
// device has the address.
func Listen(network, address string) (net.Listener, error) {
	n, err := parseNetwork(network)
	if err != nil {
		return nil, opError("listen", network, nil, nil, err)
	}
	all := netip.IPv6Unspecified()
	if n.ip == "ip4" {
		all = netip.IPv4Unspecified()
	}
	addrs, err := n.lookup(context.Background(), address, all.String())
	if err != nil {
		return nil, opError("listen", network, nil, nil, err)
	}
	cm, err := rdmacm.ListenAddr(addrs[0].String(),
		&rdmacm.Options{Kind: n.kind, Backlog: requestsWaiting})
	if err != nil {
		return nil, opError("listen", network, nil, nil, err)
	}
	l := &Listener{kind: n.kind, cm: cm, addr: &Addr{n.kind, cm.Addr()}, ready: make(chan *Conn)}
	l.ctx, l.end = context.WithCancel(context.Background())
	go l.serve()
	return l, nil
}

// serve accepts requests until the listener is closed.
func (l *Listener) serve() {
	coming := make(chan struct{}, comingMax)
	for {
		select {
		case coming <- struct{}{}:
		case <-l.ctx.Done():
			return
		}
		r, err := l.cm.Request(l.ctx)
		if err != nil {
			l.end()
			return
		}
		go func() {
			defer func() { <-coming }()
			l.take(r)
		}()
	}
}

// take accepts a request, and gives the connection to Accept.
func (l *Listener) take(r *rdmacm.Request) {
	peer, ok := parsePeer(r.PrivateData)
	if !ok {
		_ = r.Reject(nil) // it has gone, or learns it
		return
	}
	c := newConn(l.kind)
	cm, err := r.Accept(l.ctx, c.options())
	if err != nil {
		return // the peer has gone, or was refused
	}
	c.start(cm, peer)
	select {
	case l.ready <- c:
	case <-l.ctx.Done():
		_ = c.Close()
	}
}

// Accept waits for a connection, which is a *Conn. It may be called from several goroutines.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.ready:
		return c, nil
	case <-l.ctx.Done():
		return nil, opError("accept", string(l.kind), nil, l.addr, net.ErrClosed)
	}
}

// Close ends the listener, and closes connections that were not accepted. Accept fails from then
// on.
func (l *Listener) Close() (err error) {
	closed := true
	l.once.Do(func() {
		closed = false
		l.end()
		err = l.cm.Close()
	})
	if closed {
		return opError("close", string(l.kind), nil, l.addr, net.ErrClosed)
	}
	return err
}

// Addr returns the address listened to: an *Addr.
func (l *Listener) Addr() net.Addr { return l.addr }
