// SPDX-License-Identifier: BSD-2-Clause

package main

import (
	"context"
	"encoding/json"
	"errors"

	"verbena/ib"
	"verbena/rdmacm"
	"verbena/verbs"
)

// offer describes the memory of a file's bytes.
type offer struct {
	Name string
	Size int64
	Addr uint64
	RKey ib.RKey
}

// answer is the receiver's reason for not taking the file; empty if it took it.
type answer struct{ Failure string }

// messageSize is the length of the longest message.
const messageSize = 4096

// conn is a connection that carries one message each way.
type conn struct {
	*rdmacm.Conn
	inbox, outbox *verbs.MR
	ctx           context.Context // ends with the connection
	cancel        context.CancelCauseFunc
}

func dial(ctx context.Context, addr string) (*conn, error) {
	var c conn
	var err error
	if c.Conn, err = rdmacm.Dial(ctx, addr, &rdmacm.Options{Prepare: c.prepare}); err != nil {
		return nil, err
	}
	c.watch(ctx)
	return &c, nil
}

// accept takes a connection. Accept calls prepare, the last time for the connection that it
// returns.
func accept(ctx context.Context, l *rdmacm.Listener, prepared *conn) (*conn, error) {
	raw, err := l.Accept(ctx)
	if err != nil {
		return nil, err
	}
	c := *prepared
	c.Conn = raw
	c.watch(ctx)
	return &c, nil
}

// prepare registers memory for messages and posts the receive, before the peer can send.
func (c *conn) prepare(raw *rdmacm.Conn) (err error) {
	if c.outbox, err = raw.RegMR(make([]byte, messageSize), 0); err != nil {
		return err
	}
	if c.inbox, err = raw.RegMR(make([]byte, messageSize), ib.AccessLocalWrite); err != nil {
		return err
	}
	_, err = raw.QP().PostRecv(verbs.RecvWR{SGList: []ib.SGE{c.inbox.SGE(0, messageSize)}})
	return err
}

// watch ends the connection's context when the peer disconnects or dies.
func (c *conn) watch(ctx context.Context) {
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	go func() {
		if err := c.Wait(c.ctx); err != nil {
			c.cancel(err)
			return
		}
		c.cancel(errors.New("the peer has disconnected"))
	}()
}

func (c *conn) close() error {
	c.cancel(nil)
	return c.Close()
}

func (c *conn) send(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	n := copy(c.outbox.Bytes(), b)
	if n < len(b) {
		return errors.New("the message is too long")
	}
	_, err = c.QP().PostSend(verbs.SendWR{Opcode: ib.WRSend, Flags: ib.SendSignaled,
		SGList: []ib.SGE{c.outbox.SGE(0, n)}})
	if err != nil {
		return err
	}
	_, err = c.await(c.ctx, c.SendCQ)
	return err
}

func (c *conn) receive(ctx context.Context, v any) error {
	wc, err := c.await(ctx, c.RecvCQ)
	if err != nil {
		return err
	}
	return json.Unmarshal(c.inbox.Bytes()[:wc.ByteLen], v)
}

// await polls for a completion. Polling also serves the peer's READs.
func (c *conn) await(ctx context.Context, cq *verbs.CQ) (ib.WC, error) {
	var wc [1]ib.WC
	for ctx.Err() == nil {
		if n, err := cq.Poll(wc[:]); n == 1 || err != nil {
			return wc[0], errors.Join(err, wc[0].Err())
		}
	}
	return wc[0], context.Cause(ctx)
}
