// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"context"
	"errors"
	"net/netip"
	"sync/atomic"
	"syscall"
)

// Listener takes connections for a port.
type Listener struct {
	ID   *ID
	opts Options
	ch   *EventChannel
}

// ListenAddr listens to "host:port": rdma_create_ep(3) with RAI_PASSIVE and rdma_listen(3). An
// empty host stands for all local addresses, port 0 for one that the system chooses.
func ListenAddr(addr string, o *Options) (*Listener, error) {
	if o == nil {
		o = &Options{}
	}
	at, err := lookup(context.Background(), addr)
	if err != nil {
		return nil, err
	}
	l := &Listener{opts: *o, ch: NewEventChannel()}
	if l.ID, err = o.newID(l.ch); err != nil {
		return nil, err
	}
	if err = l.ID.BindAddr(at); err == nil {
		err = l.ID.Listen(o.Backlog)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Addr returns the address and port listened to.
func (l *Listener) Addr() netip.AddrPort { return l.ID.LocalAddr() }

// Accept waits for a request, accepts it with the listener's options and
// returns when data may flow. Peers that give up meanwhile are passed over. It
// may be called from several goroutines.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	for {
		r, err := l.Request(ctx)
		if err != nil {
			return nil, err
		}
		c, err := r.Accept(ctx, nil)
		if err == nil || ctx.Err() != nil || !errors.Is(err, errGone) {
			return c, err
		}
	}
}

// Request waits for the next request: for a program that looks at it, or answers each with private
// data of its own, before it accepts. It may be called from several goroutines.
func (l *Listener) Request(ctx context.Context) (*Request, error) {
	for {
		ev, err := l.ch.Get(ctx)
		if err != nil {
			return nil, err
		}
		if ev.Type == ConnectRequest {
			return &Request{PrivateData: ev.PrivateData, Peer: ev.Conn, id: ev.ID,
				opts: &l.opts}, nil
		}
	}
}

// Request is a peer's request to connect. Each is to be accepted or rejected, once; the peer waits
// some seconds for that.
type Request struct {
	PrivateData []byte    // the peer's, padded with zeros
	Peer        ConnParam // the peer's parameters

	id       *ID
	opts     *Options
	answered atomic.Bool
}

// PeerAddr returns the address and port of the peer.
func (r *Request) PeerAddr() netip.AddrPort { return r.id.PeerAddr() }

// Accept accepts the request and returns when data may flow. Options are the listener's where o is
// nil; only its PD, QP, OneCQ, Param and Prepare count.
//
// Errors: EINVAL if the request was answered before; ECONNABORTED if the peer has given up; that of
// ctx; those of the queue pair's creation and of Prepare. The request is rejected then.
func (r *Request) Accept(ctx context.Context, o *Options) (*Conn, error) {
	if r.answered.Swap(true) {
		return nil, errAnswered()
	}
	if o == nil {
		o = r.opts
	}
	c := newConn(r.id, NewEventChannel())
	c.PrivateData, c.Peer = r.PrivateData, r.Peer
	if err := c.accept(ctx, o); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Reject refuses the request. The peer's Dial fails with a *RejectedError, which has the private
// data.
func (r *Request) Reject(privateData []byte) error {
	if r.answered.Swap(true) {
		return errAnswered()
	}
	return errors.Join(r.id.Reject(privateData), r.id.Destroy())
}

func errAnswered() error { return invalid("request", "was accepted or rejected before") }

// errGone marks a request whose peer has gone.
var errGone error = fail(syscall.ECONNABORTED, "request", "the peer has given up")

func (c *Conn) accept(ctx context.Context, o *Options) error {
	if err := c.ID.Migrate(c.ch); err != nil {
		return err
	}
	if err := c.equip(o); err != nil {
		return err
	}
	if err := c.ID.Accept(o.param()); err != nil {
		return errors.Join(errGone, err)
	}
	if _, err := c.expect(ctx, Established); err != nil {
		if ctx.Err() != nil {
			return err
		}
		return errors.Join(errGone, err)
	}
	return nil
}

// Close ends the listener. Requests that have not been accepted are refused.
func (l *Listener) Close() error {
	err := l.ID.Destroy()
	l.ch.Close()
	return err
}
