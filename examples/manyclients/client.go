// SPDX-License-Identifier: BSD-2-Clause

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"verbena/ib"
	"verbena/rdmacm"
	"verbena/verbs"
)

// client is a connection with the memory for its answer.
type client struct {
	*rdmacm.Conn
	inbox *verbs.MR
}

// ask connects n times, sends a message on each connection and then takes all answers.
func ask(ctx context.Context, addr string, n int) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	clients := make([]client, 0, n)
	defer func() {
		for _, c := range clients {
			err = errors.Join(err, c.Close())
		}
	}()
	for range n {
		c := client{}
		prepare := func(conn *rdmacm.Conn) (err error) {
			if c.inbox, err = conn.RegMR(make([]byte, messageSize),
				ib.AccessLocalWrite); err != nil {
				return err
			}
			_, err = conn.QP().PostRecv(verbs.RecvWR{SGList: []ib.SGE{c.inbox.SGE(0, messageSize)}})
			return err
		}
		c.Conn, err = rdmacm.Dial(ctx, addr, &rdmacm.Options{Prepare: prepare})
		if err != nil {
			return err
		}
		clients = append(clients, c)
		if len(clients)%100 == 0 {
			fmt.Println(len(clients), "clients are connected")
		}
	}
	for i, c := range clients {
		question := verbs.SendWR{Opcode: ib.WRSend, Flags: ib.SendInline | ib.SendSignaled,
			Inline: fmt.Appendf(nil, "message %d", i)}
		if _, err := c.QP().PostSend(question); err != nil {
			return err
		}
	}
	for i, c := range clients {
		answer, err := c.receive(ctx)
		if err != nil {
			return err
		}
		if want := fmt.Sprintf("MESSAGE %d", i); answer != want {
			return fmt.Errorf("the answer is %q, not %q", answer, want)
		}
	}
	fmt.Println(n, "clients have their answers")
	return nil
}

// receive polls for the answer.
func (c *client) receive(ctx context.Context) (string, error) {
	var wc [1]ib.WC
	for ctx.Err() == nil {
		for _, cq := range []*verbs.CQ{c.SendCQ, c.RecvCQ} {
			n, err := cq.Poll(wc[:])
			if err != nil {
				return "", err
			}
			if n == 0 {
				continue
			}
			if err := wc[0].Err(); err != nil {
				return "", err
			}
			if cq == c.RecvCQ {
				return string(c.inbox.Bytes()[:wc[0].ByteLen]), nil
			}
		}
	}
	return "", ctx.Err()
}
