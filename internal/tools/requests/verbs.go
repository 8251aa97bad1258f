// SPDX-License-Identifier: BSD-2-Clause

package requests

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"verbena/ib"
	"verbena/rdmacm"
	"verbena/verbs"
)

const (
	signalEach     = 16 // every such send is signaled
	sent           = ^uint64(0)
	connectTimeout = 30 * time.Second
)

// conn is a connection and the number of its sends.
type conn struct {
	qp    *verbs.QP
	sends int
}

// endpoint has the objects that all connections of a process share.
type endpoint struct {
	pd      *verbs.PD
	channel *verbs.CompChannel
	cq      *verbs.CQ
	srq     *verbs.SRQ // the server's
	inbox   *verbs.MR
	outbox  *verbs.MR
	inBytes int
	msg     []ib.SGE

	mu    sync.Mutex
	conns map[ib.QPN]*conn
	list  list // guarded by mu
}

// list has the work requests that successive completions of one connection lead to. They are posted
// at once: the TCP server also answers all requests of a read by one write.
type list struct {
	conn  *conn
	recvs []verbs.RecvWR
	sends []verbs.SendWR
	sges  []ib.SGE // of recvs
}

const polled = 32 // completions of one poll

func newEndpoint(dev *verbs.Context, s *side, in, out int) (e *endpoint, err error) {
	e = &endpoint{inBytes: in, conns: map[ib.QPN]*conn{}}
	receives := s.clients * s.depth
	if e.pd, err = dev.AllocPD(); err != nil {
		return nil, err
	}
	if e.channel, err = dev.CreateCompChannel(); err != nil {
		return nil, err
	}
	if e.cq, err = dev.CreateCQ(2*receives+s.clients*signalEach, e.channel); err != nil {
		return nil, err
	}
	if e.inbox, err = e.pd.RegMR(make([]byte, receives*in), ib.AccessLocalWrite); err != nil {
		return nil, err
	}
	if e.outbox, err = e.pd.RegMR(make([]byte, out), ib.AccessLocalWrite); err != nil {
		return nil, err
	}
	e.msg = []ib.SGE{e.outbox.SGE(0, out)}
	return e, nil
}

func (e *endpoint) qpAttr(s *side) verbs.QPInitAttr {
	attr := verbs.QPInitAttr{Type: ib.QPTypeRC, SendCQ: e.cq, RecvCQ: e.cq, SRQ: e.srq,
		Cap: ib.QPCap{MaxSendWR: uint32(2*s.depth + 2*signalEach), MaxSendSGE: 1,
			MaxInlineData: requestBytes}}
	if e.srq == nil {
		attr.Cap.MaxRecvWR, attr.Cap.MaxRecvSGE = uint32(s.depth), 1
	}
	return attr
}

// listFor begins a list for a connection if the list is another's, or full. The caller holds mu.
func (e *endpoint) listFor(c *conn, used int) (err error) {
	if e.list.conn != c || used == polled {
		err = e.post()
	}
	e.list.conn = c
	return err
}

// receive lists a buffer for the shared receive queue, or for a connection.
func (e *endpoint) receive(c *conn, buffer uint64) error {
	l := &e.list
	err := e.listFor(c, len(l.recvs))
	l.sges = append(l.sges, e.inbox.SGE(int(buffer)*e.inBytes, e.inBytes))
	l.recvs = append(l.recvs, verbs.RecvWR{ID: buffer, SGList: l.sges[len(l.sges)-1:]})
	return err
}

// send lists a message.
func (e *endpoint) send(c *conn) error {
	err := e.listFor(c, len(e.list.sends))
	wr := verbs.SendWR{ID: sent, Opcode: ib.WRSend, SGList: e.msg}
	if c.sends++; c.sends%signalEach == 0 {
		wr.Flags |= ib.SendSignaled
	}
	if len(e.outbox.Bytes()) <= requestBytes {
		wr.Flags |= ib.SendInline
		wr.Inline = e.outbox.Bytes()
		wr.SGList = nil
	}
	e.list.sends = append(e.list.sends, wr)
	return err
}

// receiveAll posts the first receives of a connection, or of the shared queue.
func (e *endpoint) receiveAll(c *conn, buffer, count int) (err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range count {
		err = errors.Join(err, e.receive(c, uint64(buffer+i)))
	}
	return errors.Join(err, e.post())
}

// sendAll posts the first messages of all connections.
func (e *endpoint) sendAll(each int) (err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.conns {
		for range each {
			err = errors.Join(err, e.send(c))
		}
	}
	return errors.Join(err, e.post())
}

// post posts the list. The caller holds mu.
func (e *endpoint) post() (err error) {
	l := &e.list
	switch {
	case len(l.recvs) == 0:
	case e.srq != nil:
		_, err = e.srq.PostRecv(l.recvs...)
	default:
		_, err = l.conn.qp.PostRecv(l.recvs...)
	}
	if err == nil && len(l.sends) > 0 {
		_, err = l.conn.qp.PostSend(l.sends...)
	}
	l.recvs, l.sends, l.sges = l.recvs[:0], l.sends[:0], l.sges[:0]
	return err
}

func (e *endpoint) add(qp *verbs.QP) *conn {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := &conn{qp: qp}
	e.conns[qp.QPN()] = c
	return c
}

// sleep waits for completions and answers each message by one, until ctx ends. It
// returns the number of messages.
func (e *endpoint) sleep(ctx context.Context) (came int64, err error) {
	for {
		if err := e.cq.RequestNotify(false); err != nil {
			return came, err
		}
		n, err := e.drain()
		if came += n; err != nil {
			return came, err
		}
		if _, err := e.channel.Wait(ctx); err != nil {
			if ctx.Err() != nil {
				return came, nil
			}
			return came, err
		}
	}
}

func (e *endpoint) drain() (came int64, err error) {
	var wcs [polled]ib.WC
	for {
		n, err := e.cq.Poll(wcs[:])
		if n == 0 || err != nil {
			return came, err
		}
		e.mu.Lock()
		for _, wc := range wcs[:n] {
			c := e.conns[wc.QPN]
			switch {
			case wc.Status == ib.WCWRFlushErr || wc.Status == ib.WCSuccess && wc.WRID == sent:
				continue
			case wc.Status != ib.WCSuccess:
				err = errors.Join(err, wc.Err())
			case c == nil:
				err = errors.Join(err, fmt.Errorf("a completion of unknown queue pair %v", wc.QPN))
			default:
				came++
				err = errors.Join(err, e.receive(c, wc.WRID), e.send(c))
			}
		}
		err = errors.Join(err, e.post())
		e.mu.Unlock()
		if err != nil {
			return came, err
		}
	}
}

func (s *side) serveVerbs(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events := rdmacm.NewEventChannel()
	listener, err := rdmacm.NewID(events, rdmacm.TCP)
	if err != nil {
		return err
	}
	addr, err := netip.ParseAddrPort(s.addr)
	if err != nil {
		return err
	}
	if err := listener.SetKind(s.kind); err != nil {
		return err
	}
	if err := listener.BindAddr(addr); err != nil {
		return err
	}
	e, err := newEndpoint(listener.Verbs(), s, requestBytes, s.value)
	if err != nil {
		return err
	}
	shared := ib.SRQAttr{MaxWR: uint32(s.clients * s.depth), MaxSGE: 1}
	if e.srq, err = e.pd.CreateSRQ(shared); err != nil {
		return err
	}
	if err := e.receiveAll(nil, 0, s.clients*s.depth); err != nil {
		return err
	}
	if err := listener.Listen(0); err != nil {
		return err
	}
	s.say("ready", 0, 0)
	failed := make(chan error, 1)
	go func() {
		_, err := e.sleep(ctx)
		failed <- err
		cancel()
	}()
	for left := 0; left < s.clients; {
		event, err := events.Get(ctx)
		if err != nil {
			return errors.Join(err, <-failed)
		}
		switch event.Type {
		case rdmacm.ConnectRequest:
			attr := e.qpAttr(s)
			err := event.ID.CreateQP(e.pd, &attr)
			if err == nil {
				e.add(event.ID.QP())
				err = event.ID.Accept(&rdmacm.ConnParam{RetryCount: 7, RNRRetryCount: 7})
			}
			if err != nil {
				return err
			}
		case rdmacm.Disconnected:
			left++
		case rdmacm.Unreachable, rdmacm.ConnectError, rdmacm.Rejected:
			return fmt.Errorf("a client could not connect: %v", event.Type)
		}
	}
	return nil
}

func (s *side) askVerbs(ctx context.Context) error {
	start := time.Now()
	e, conns, err := s.connect(ctx)
	if err != nil {
		return err
	}
	s.say("connected", int64(s.clients), time.Since(start))
	if err := s.await(); err != nil {
		return err
	}
	limited, stop := context.WithTimeout(ctx, s.length)
	defer stop()
	start = time.Now()
	if err := e.sendAll(s.depth); err != nil {
		return err
	}
	answers, err := e.sleep(limited)
	if err != nil {
		return err
	}
	s.say("answered", answers, time.Since(start))
	err = s.await()
	for _, c := range conns {
		err = errors.Join(err, c.ID.Disconnect())
	}
	return err
}

// connect makes all connections, one after the other.
func (s *side) connect(ctx context.Context) (e *endpoint, conns []*rdmacm.Conn, err error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	to, err := netip.ParseAddrPort(s.addr)
	if err != nil {
		return nil, nil, err
	}
	events := rdmacm.NewEventChannel()
	id, err := rdmacm.NewID(events, rdmacm.TCP)
	if err != nil {
		return nil, nil, err
	}
	if err := id.SetKind(s.kind); err != nil {
		return nil, nil, err
	}
	if err := id.ResolveAddr(ctx, netip.AddrPort{}, to); err != nil {
		return nil, nil, err
	}
	if _, err := events.Get(ctx); err != nil {
		return nil, nil, err
	}
	if e, err = newEndpoint(id.Verbs(), s, s.value, requestBytes); err != nil {
		return nil, nil, err
	}
	for i := range s.clients {
		prepare := func(c *rdmacm.Conn) error {
			return e.receiveAll(e.add(c.QP()), i*s.depth, s.depth)
		}
		o := &rdmacm.Options{Kind: s.kind, PD: e.pd, QP: e.qpAttr(s), Prepare: prepare}
		c, err := rdmacm.Dial(ctx, s.addr, o)
		if err != nil {
			return nil, nil, err
		}
		conns = append(conns, c)
	}
	return e, conns, nil
}
