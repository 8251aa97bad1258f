// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"context"
	"errors"
	"net/netip"
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
		ev, err := l.ch.Get(ctx)
		if err != nil {
			return nil, err
		}
		if ev.Type != ConnectRequest {
			continue
		}
		c := &Conn{ID: ev.ID, PrivateData: ev.PrivateData, Peer: ev.Conn, ch: NewEventChannel()}
		err = c.accept(ctx, &l.opts)
		if err == nil {
			return c, nil
		}
		if err = errors.Join(err, c.Close()); ctx.Err() != nil || !errors.Is(err, errGone) {
			return nil, err
		}
	}
}

// errGone marks a request whose peer has gone.
var errGone = errors.New("the peer has given up")

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
