// SPDX-License-Identifier: BSD-2-Clause

// Command wait receives messages without polling: the goroutine sleeps until a completion comes
// or the peer has gone, and the process uses no processor time meanwhile.
//
//	wait -listen 127.0.0.1:7471
//	wait -connect 127.0.0.1:7471 -every 200ms -count 5
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/netip"
	"time"

	"verbena/ib"
	"verbena/rdmacm"
	"verbena/verbs"
)

func main() {
	log.SetFlags(0)
	listen := flag.String("listen", "127.0.0.1:7471", "receive at this `address` of this host")
	connect := flag.String("connect", "", "send to this `address`")
	every := flag.Duration("every", 200*time.Millisecond, "send one message each `time`")
	count := flag.Int("count", 5, "number of messages")
	flag.Parse()
	var err error
	if *connect != "" {
		err = send(context.Background(), *connect, *every, *count)
	} else {
		err = receive(context.Background(), *listen)
	}
	if err != nil {
		log.Fatal(err)
	}
}

const (
	messageSize = 64
	posted      = 16 // receives
)

// receive takes one connection and prints its messages until the peer disconnects.
func receive(ctx context.Context, addr string) error {
	w, err := newWaiter(addr, func(id *rdmacm.ID, at netip.AddrPort) error {
		return id.BindAddr(at)
	})
	if err != nil {
		return err
	}
	var inbox *verbs.MR
	post := func(c *rdmacm.Conn, i uint64) error {
		_, err := c.QP().PostRecv(verbs.RecvWR{ID: i,
			SGList: []ib.SGE{inbox.SGE(int(i)*messageSize, messageSize)}})
		return err
	}
	prepare := func(c *rdmacm.Conn) (err error) {
		if inbox, err = c.RegMR(make([]byte, posted*messageSize), ib.AccessLocalWrite); err != nil {
			return err
		}
		for i := range uint64(posted) {
			if err := post(c, i); err != nil {
				return err
			}
		}
		return nil
	}
	options := &rdmacm.Options{PD: w.pd, QP: verbs.QPInitAttr{RecvCQ: w.cq}, Prepare: prepare}
	l, err := rdmacm.ListenAddr(addr, options)
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Println("listening on", l.Addr())
	c, err := l.Accept(ctx)
	if err != nil {
		return err
	}
	defer c.Close()

	err = w.completions(untilDisconnected(ctx, c), func(wc ib.WC) error {
		at := int(wc.WRID) * messageSize
		fmt.Printf("%s\n", inbox.Bytes()[at:at+int(wc.ByteLen)])
		return post(c, wc.WRID)
	})
	if errors.Is(err, errDisconnected) {
		fmt.Println("the peer has disconnected")
		return nil
	}
	return err
}

// send sends count messages, one each time that every has passed.
func send(ctx context.Context, addr string, every time.Duration, count int) error {
	w, err := newWaiter(addr, func(id *rdmacm.ID, at netip.AddrPort) error {
		if err := id.ResolveAddr(ctx, netip.AddrPort{}, at); err != nil {
			return err
		}
		e, err := id.Channel().Get(ctx)
		if err != nil {
			return err
		}
		return e.Err
	})
	if err != nil {
		return err
	}
	c, err := rdmacm.Dial(ctx, addr, &rdmacm.Options{PD: w.pd, QP: verbs.QPInitAttr{SendCQ: w.cq}})
	if err != nil {
		return err
	}
	defer c.Close()
	ctx = untilDisconnected(ctx, c)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for i := range count {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		message := fmt.Appendf(nil, "message %d", i)
		_, err := c.QP().PostSend(verbs.SendWR{Opcode: ib.WRSend,
			Flags: ib.SendInline | ib.SendSignaled, Inline: message})
		if err != nil {
			return err
		}
		err = w.completions(ctx, func(ib.WC) error { return errDone })
		if !errors.Is(err, errDone) {
			return err
		}
	}
	return nil
}
