// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"

	"verbena/ib"
	"verbena/internal/core"
	"verbena/verbs"
)

// Options configure Dial and ListenAddr. The zero value, and nil, are fine for a reliable
// connection.
type Options struct {
	// Source is the local address, and port, to dial from; zero lets the system
	// choose.
	Source netip.AddrPort
	// Kind is the kind of devices to use; empty stands for RoCE.
	Kind Kind
	// NoCRC turns CRCs off in an iWARP stream, unless the peer wants them; see ID.SetCRC.
	NoCRC bool
	// PD is the protection domain of the queue pair. It belongs to the device that the connection
	// uses; nil makes one for each Conn.
	PD *verbs.PD
	// QP has the attributes of the queue pair. Zero fields have defaults: type RC, 64 work requests
	// of 4 elements each way, 64 bytes inline, completion queues of the Conn's own.
	QP verbs.QPInitAttr
	// OneCQ makes one completion queue for both queues of the queue pair, instead of one each. It
	// is for goroutines that wait: what those of several Conns send leaves together.
	OneCQ bool
	// Param has the connection's parameters; nil stands for as many READs and atomics as the device
	// does and the longest retries.
	Param *ConnParam
	// Backlog bounds the requests that wait for Accept; see ID.Listen.
	Backlog int
	// Prepare is called when the queue pair can take receives and the peer
	// cannot send yet: post receives here, in memory of Conn.RegMR. Its error
	// ends the attempt.
	Prepare func(*Conn) error
}

// Conn is an established connection. PD, SendCQ and RecvCQ are those of its queue pair. Goroutines
// may block in Wait of the completion queues, unless Options named others.
//
// When the peer disconnects or dies, the queue pair goes to the state ERR. Receives that were
// posted complete with ib.WCWRFlushErr then, behind all messages that came before. After Close
// every method returns an error.
type Conn struct {
	ID     *ID
	PD     *verbs.PD
	SendCQ *verbs.CQ
	RecvCQ *verbs.CQ
	// PrivateData and Peer are from the peer's request or answer.
	PrivateData []byte
	Peer        ConnParam

	// immutable once Prepare is called
	ch  *EventChannel
	qp  *verbs.QP
	ctx context.Context
	end context.CancelCauseFunc

	own []func() error // undoes the objects made for this Conn, the last first; until Close

	mu     sync.Mutex
	closed bool        // guarded by mu
	mrs    []*verbs.MR // guarded by mu
}

// ErrDisconnected is the cause for which the context of a Conn ends when its peer has disconnected
// or died. It wraps ECONNRESET.
var ErrDisconnected error = fail(syscall.ECONNRESET, "connection", "the peer has disconnected")

// newConn returns a Conn without queue pair for an identifier that raises its events on ch.
func newConn(id *ID, ch *EventChannel) *Conn {
	c := &Conn{ID: id, ch: ch}
	c.ctx, c.end = context.WithCancelCause(context.Background())
	return c
}

// QP returns the connection's queue pair. Close destroys it: its methods return errors then.
func (c *Conn) QP() *verbs.QP { return c.qp }

// Context returns a context that ends with the connection. Its cause is ErrDisconnected or, after
// Close, net.ErrClosed. Give it, or one derived from it, to Wait of a completion queue.
func (c *Conn) Context() context.Context { return c.ctx }

// RegMR registers memory on the connection's PD: rdma_reg_msgs(3), rdma_reg_read(3),
// rdma_reg_write(3). Close deregisters it.
func (c *Conn) RegMR(buf []byte, access ib.Access) (*verbs.MR, error) {
	mr, err := c.PD.RegMR(buf, access)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.mrs = append(c.mrs, mr)
	}
	c.mu.Unlock()
	if closed {
		return nil, errors.Join(errClosed(), mr.Dereg())
	}
	return mr, nil
}

func errClosed() error { return fail(syscall.EBADF, "connection", "is closed") }

// Dial connects to "host:port" and returns when data may flow: rdma_create_ep(3)
// and rdma_connect(3) in synchronous mode. ctx bounds the attempt.
//
// Errors: a *RejectedError, or an error that wraps ETIMEDOUT or that of an ID's call.
func Dial(ctx context.Context, addr string, o *Options) (*Conn, error) {
	if o == nil {
		o = &Options{}
	}
	dst, err := lookup(ctx, addr)
	if err != nil {
		return nil, err
	}
	ch := NewEventChannel()
	id, err := o.newID(ch)
	if err != nil {
		return nil, err
	}
	c := newConn(id, ch)
	if err := c.dial(ctx, dst, o); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Conn) dial(ctx context.Context, dst netip.AddrPort, o *Options) error {
	if err := c.ID.ResolveAddr(ctx, o.Source, dst); err != nil {
		return err
	}
	if _, err := c.expect(ctx, AddrResolved); err != nil {
		return err
	}
	if err := c.ID.ResolveRoute(); err != nil {
		return err
	}
	if _, err := c.expect(ctx, RouteResolved); err != nil {
		return err
	}
	if err := c.equip(o); err != nil {
		return err
	}
	if err := c.ID.Connect(o.param()); err != nil {
		return err
	}
	ev, err := c.expect(ctx, Established)
	if err != nil {
		return err
	}
	c.PrivateData, c.Peer = ev.PrivateData, ev.Conn
	return nil
}

// expect waits for an event of a type. Another event is an error, but AddrChange.
func (c *Conn) expect(ctx context.Context, want EventType) (*Event, error) {
	for {
		ev, err := c.ch.Get(ctx)
		switch {
		case err != nil:
			return nil, err
		case ev.Type == want:
			return ev, nil
		case ev.Type == AddrChange:
			continue
		case ev.Err != nil:
			return nil, ev.Err
		}
		return nil, fail(syscall.ECONNRESET, "connection", "%v instead of %v", ev.Type, want)
	}
}

// equip makes the queue pair, and its PD and completion queues where o has none.
func (c *Conn) equip(o *Options) (err error) {
	ctx := c.ID.Verbs()
	if c.PD = o.PD; c.PD == nil {
		if c.PD, err = ctx.AllocPD(); err != nil {
			return err
		}
		c.own = append(c.own, c.PD.Dealloc)
	}
	attr := o.attr()
	if o.OneCQ && attr.SendCQ == nil && attr.RecvCQ == nil {
		cq, err := c.PD.Context().CreateCQ(int(attr.Cap.MaxSendWR+attr.Cap.MaxRecvWR), nil)
		if err != nil {
			return err
		}
		(*core.CQ)(cq).Gather()
		c.own = append(c.own, cq.Destroy)
		attr.SendCQ, attr.RecvCQ = cq, cq
	}
	for _, q := range []struct {
		cq    **verbs.CQ
		depth uint32
	}{{&attr.SendCQ, attr.Cap.MaxSendWR}, {&attr.RecvCQ, attr.Cap.MaxRecvWR}} {
		if *q.cq != nil {
			continue
		}
		if *q.cq, err = c.PD.Context().CreateCQ(int(max(q.depth, 1)), nil); err != nil {
			return err
		}
		c.own = append(c.own, (*q.cq).Destroy)
	}
	c.SendCQ, c.RecvCQ = attr.SendCQ, attr.RecvCQ
	if err := c.ID.CreateQP(c.PD, &attr); err != nil {
		return err
	}
	c.qp = c.ID.QP()
	c.ID.onDisconnect(func() { c.end(ErrDisconnected) })
	if o.Prepare != nil {
		return o.Prepare(c)
	}
	return nil
}

// newID returns an identifier for the kind and type that o asks for.
func (o *Options) newID(ch *EventChannel) (*ID, error) {
	id, err := NewID(ch, TCP)
	if err != nil {
		return nil, err
	}
	if err := id.SetKind(cmp.Or(o.Kind, RoCE)); err != nil {
		return nil, errors.Join(err, id.Destroy())
	}
	id.SetCRC(!o.NoCRC)
	return id, nil
}

func (o *Options) attr() verbs.QPInitAttr {
	a := o.QP
	if a.Type == 0 {
		a.Type = ib.QPTypeRC
	}
	if a.Cap == (ib.QPCap{}) {
		a.Cap = ib.QPCap{MaxSendWR: 64, MaxRecvWR: 64, MaxSendSGE: 4, MaxRecvSGE: 4,
			MaxInlineData: 64}
	}
	return a
}

func (o *Options) param() *ConnParam {
	if o.Param != nil {
		return o.Param
	}
	return &ConnParam{ResponderResources: MaxRdAtomic, InitiatorDepth: MaxRdAtomic, RetryCount: 7,
		RNRRetryCount: 7}
}

// Wait returns nil when the peer has disconnected, or ctx's error if ctx ends
// first.
func (c *Conn) Wait(ctx context.Context) error {
	for {
		ev, err := c.ch.Get(ctx)
		if err != nil {
			return err
		}
		if ev.Type == Disconnected || ev.Type == TimewaitExit {
			return nil
		}
	}
}

// Close disconnects and destroys the objects made for the connection. It does not wait for the
// peer. Destroy other objects on a PD of the Conn's own, such as memory windows, before.
//
// Errors: EBADF if the connection is closed.
func (c *Conn) Close() error {
	c.mu.Lock()
	closed, mrs := c.closed, c.mrs
	c.closed, c.mrs = true, nil
	c.mu.Unlock()
	if closed {
		return errClosed()
	}
	c.end(net.ErrClosed)
	var errs []error
	if c.established() {
		errs = append(errs, c.ID.Disconnect())
	}
	if c.qp != nil {
		errs = append(errs, c.ID.DestroyQP())
	}
	for _, mr := range mrs {
		errs = append(errs, mr.Dereg())
	}
	for i := len(c.own) - 1; i >= 0; i-- {
		errs = append(errs, c.own[i]())
	}
	c.own = nil
	errs = append(errs, c.ID.Destroy())
	c.ch.Close()
	return errors.Join(errs...)
}

func (c *Conn) established() bool {
	c.ID.mu.Lock()
	defer c.ID.mu.Unlock()
	return c.ID.state == stEstablished || c.ID.state == stDisconnected && c.ID.proto.begun()
}

// lookup turns "host:port" into an address; an empty host stands for all local
// ones.
func lookup(ctx context.Context, addr string) (netip.AddrPort, error) {
	host, service, err := net.SplitHostPort(addr)
	if err != nil {
		return netip.AddrPort{}, invalid("address", "%v", err)
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "tcp", service)
	if err != nil {
		return netip.AddrPort{}, invalid("address", "%v", err)
	}
	if host == "" {
		return netip.AddrPortFrom(netip.IPv6Unspecified(), uint16(port)), nil
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return netip.AddrPort{}, err
	}
	return netip.AddrPortFrom(ips[0].Unmap(), uint16(port)), nil
}
