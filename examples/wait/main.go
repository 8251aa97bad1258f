// SPDX-License-Identifier: BSD-2-Clause

// Command wait receives messages without polling: the goroutine sleeps until a completion comes
// or the peer has gone, and the process uses no processor time meanwhile.
//
//	wait -listen 127.0.0.1:7471
//	wait -connect 127.0.0.1:7471 -every 200ms -count 5
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
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

// receive takes one connection and prints its messages until the peer disconnects. Its receives are
// flushed then.
func receive(ctx context.Context, addr string) error {
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
	l, err := rdmacm.ListenAddr(addr, &rdmacm.Options{Prepare: prepare})
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

	for wc, err := range c.RecvCQ.Completions(ctx) {
		switch {
		case err != nil:
			return err
		case wc.Status == ib.WCWRFlushErr:
			fmt.Println("the peer has disconnected")
			return nil
		case wc.Err() != nil:
			return wc.Err()
		}
		at := int(wc.WRID) * messageSize
		fmt.Printf("%s\n", inbox.Bytes()[at:at+int(wc.ByteLen)])
		if err := post(c, wc.WRID); err != nil {
			return err
		}
	}
	return nil
}

// send sends count messages, one each time that every has passed.
func send(ctx context.Context, addr string, every time.Duration, count int) error {
	c, err := rdmacm.Dial(ctx, addr, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for i := range count {
		select {
		case <-tick.C:
		case <-c.Context().Done():
			return context.Cause(c.Context())
		}
		message := fmt.Appendf(nil, "message %d", i)
		_, err := c.QP().PostSend(verbs.SendWR{Opcode: ib.WRSend,
			Flags: ib.SendInline | ib.SendSignaled, Inline: message})
		if err != nil {
			return err
		}
		var wc [1]ib.WC
		if _, err := c.SendCQ.Wait(ctx, wc[:]); err != nil {
			return err
		}
		if err := wc[0].Err(); err != nil {
			return err
		}
	}
	return nil
}
