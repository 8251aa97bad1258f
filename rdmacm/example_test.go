// SPDX-License-Identifier: BSD-2-Clause

package rdmacm_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"net/netip"
	"syscall"
	"time"

	"verbena/ib"
	"verbena/rdmacm"
	"verbena/verbs"
)

// A server and a client in one process: the client sends one message.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	inbox := make([]byte, 64)
	l, err := rdmacm.ListenAddr("127.0.0.1:0", &rdmacm.Options{Prepare: func(c *rdmacm.Conn) error {
		// The peer may send as soon as it is connected: have a receive ready.
		mr, err := c.RegMR(inbox, ib.AccessLocalWrite)
		if err != nil {
			return err
		}
		_, err = c.QP().PostRecv(verbs.RecvWR{SGList: []ib.SGE{mr.SGE(0, len(inbox))}})
		return err
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()

	go func() {
		c, err := rdmacm.Dial(ctx, l.Addr().String(), nil)
		if err != nil {
			log.Fatal(err)
		}
		wr := verbs.SendWR{Opcode: ib.WRSend, Flags: ib.SendInline | ib.SendSignaled, Inline: []byte("hello, RDMA")}
		if _, err := c.QP().PostSend(wr); err != nil {
			log.Fatal(err)
		}
		next(c.SendCQ)
		c.Close()
	}()

	c, err := l.Accept(ctx)
	if err != nil {
		log.Fatal(err)
	}
	wc := next(c.RecvCQ)
	fmt.Printf("%s: %s\n", wc.Opcode, inbox[:wc.ByteLen])
	c.Wait(ctx)
	fmt.Println("the peer has disconnected")
	c.Close()
	// Output:
	// RECV: hello, RDMA
	// the peer has disconnected
}

// next polls for a completion, which must be a success.
func next(cq *verbs.CQ) ib.WC {
	var wc [1]ib.WC
	for {
		switch n, err := cq.Poll(wc[:]); {
		case err != nil:
			log.Fatal(err)
		case n == 1 && wc[0].Err() != nil:
			log.Fatal(wc[0].Err())
		case n == 1:
			return wc[0]
		}
	}
}

// A program may go on where no server listens.
func ExampleDial() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err := rdmacm.Dial(ctx, "127.0.0.1:1", nil)
	var rejected *rdmacm.RejectedError
	if errors.As(err, &rejected) {
		fmt.Println("no listener:", rejected.Reason == rdmacm.RejectNoListener)
	}
	fmt.Println("refused:", errors.Is(err, syscall.ECONNREFUSED))
	// Output:
	// no listener: true
	// refused: true
}

// A server that takes connections until its context ends. The server's private data reach each
// client with the connection.
func ExampleListener() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	l, err := rdmacm.ListenAddr("127.0.0.1:0", &rdmacm.Options{Param: &rdmacm.ConnParam{
		PrivateData: []byte("welcome"), ResponderResources: rdmacm.MaxRdAtomic, InitiatorDepth: rdmacm.MaxRdAtomic, RNRRetryCount: 7,
	}})
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		for {
			c, err := l.Accept(ctx)
			if err != nil {
				ended <- l.Close()
				return
			}
			go func() {
				c.Wait(ctx) // serve the client here
				c.Close()
			}()
		}
	}()

	for range 2 {
		c, err := rdmacm.Dial(ctx, l.Addr().String(), nil)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s\n", c.PrivateData[:7]) // padded with zeros
		c.Close()
	}
	cancel()
	fmt.Println(<-ended)
	// Output:
	// welcome
	// welcome
	// <nil>
}

// The kind of devices, and with it the transport, is an option.
func ExampleOptions() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, kind := range []rdmacm.Kind{rdmacm.RoCE, rdmacm.IWARP, rdmacm.TRP} {
		o := &rdmacm.Options{
			Kind: kind,
			QP:   verbs.QPInitAttr{Cap: ib.QPCap{MaxSendWR: 1024, MaxSendSGE: 1}},
		}
		l, err := rdmacm.ListenAddr("127.0.0.1:0", o)
		if err != nil {
			log.Fatal(err)
		}
		go func() {
			if c, err := l.Accept(ctx); err == nil {
				c.Wait(ctx)
				c.Close()
			}
		}()
		c, err := rdmacm.Dial(ctx, l.Addr().String(), o)
		if err != nil {
			log.Fatal(err)
		}
		_, made := c.QP().Query()
		fmt.Println(c.ID.Verbs().Info().Kind, c.QP().State(), made.Cap.MaxSendWR)
		c.Close()
		l.Close()
	}
	// Output:
	// roce RTS 1024
	// iwarp RTS 1024
	// trp RTS 1024
}

// Identifiers and events, as in C: both ends of a connection on one channel.
func ExampleID() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	events := rdmacm.NewEventChannel()
	defer events.Close()
	listener := must(rdmacm.NewID(events, rdmacm.TCP))
	done(listener.BindAddr(netip.MustParseAddrPort("127.0.0.1:0")))
	done(listener.Listen(16))
	active := must(rdmacm.NewID(events, rdmacm.TCP))
	done(active.ResolveAddr(ctx, netip.AddrPort{}, listener.LocalAddr()))

	pd := must(listener.Verbs().AllocPD())
	cq := must(listener.Verbs().CreateCQ(16, nil))
	attr := &verbs.QPInitAttr{Type: ib.QPTypeRC, SendCQ: cq, RecvCQ: cq, Cap: ib.QPCap{MaxSendWR: 4, MaxSendSGE: 1}}
	param := &rdmacm.ConnParam{RetryCount: 7, RNRRetryCount: 7}
	for up := 0; up < 2; {
		ev := must(events.Get(ctx))
		done(ev.Err)
		switch ev.Type {
		case rdmacm.AddrResolved:
			done(ev.ID.ResolveRoute())
		case rdmacm.RouteResolved:
			done(ev.ID.CreateQP(pd, attr))
			done(ev.ID.Connect(param))
		case rdmacm.ConnectRequest:
			done(ev.ID.CreateQP(pd, attr))
			done(ev.ID.Accept(param))
		case rdmacm.Established:
			up++
			fmt.Println(ev.ID.QP().State())
			defer func() {
				done(ev.ID.Disconnect())
				done(ev.ID.DestroyQP())
				done(ev.ID.Destroy())
			}()
		}
	}
	done(listener.Destroy())
	// Output:
	// RTS
	// RTS
}

// Datagrams: the server's queue pair is found by address and port, and then sent to.
func ExampleUDParam() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	events := rdmacm.NewEventChannel()
	defer events.Close()
	server := must(rdmacm.NewID(events, rdmacm.UDP))
	done(server.BindAddr(netip.MustParseAddrPort("127.0.0.1:0")))
	done(server.Listen(16))
	client := must(rdmacm.NewID(events, rdmacm.UDP))
	done(client.ResolveAddr(ctx, netip.AddrPort{}, server.LocalAddr()))

	pd := must(server.Verbs().AllocPD())
	cq := must(server.Verbs().CreateCQ(16, nil))
	attr := &verbs.QPInitAttr{
		Type: ib.QPTypeUD, SendCQ: cq, RecvCQ: cq,
		Cap: ib.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInlineData: 64},
	}
	inbox := must(pd.RegMR(make([]byte, 40+64), ib.AccessLocalWrite)) // a header comes before the datagram
	for {
		ev := must(events.Get(ctx))
		done(ev.Err)
		switch ev.Type {
		case rdmacm.AddrResolved:
			done(ev.ID.ResolveRoute())
		case rdmacm.RouteResolved:
			done(ev.ID.CreateQP(pd, attr))
			done(ev.ID.Connect(nil))
		case rdmacm.ConnectRequest:
			done(ev.ID.CreateQP(pd, attr))
			must(ev.ID.QP().PostRecv(verbs.RecvWR{SGList: []ib.SGE{inbox.SGE(0, 40+64)}}))
			done(ev.ID.Accept(nil))
		case rdmacm.Established:
			ah := must(pd.CreateAH(&ev.UD.AH))
			must(ev.ID.QP().PostSend(verbs.SendWR{
				Opcode: ib.WRSend, Flags: ib.SendInline, Inline: []byte("hello"),
				AH: ah, RemoteQPN: ev.UD.QPN, RemoteQKey: ev.UD.QKey,
			}))
			wc := next(cq)
			fmt.Printf("%s\n", inbox.Bytes()[40:wc.ByteLen])
			return
		}
	}
	// Output: hello
}

// One end of a multicast group: it joins, and learns how to send there.
func ExampleID_JoinMulticast() {
	ch := rdmacm.NewEventChannel()
	defer ch.Close()
	id, err := rdmacm.NewID(ch, rdmacm.UDP)
	if err != nil {
		log.Fatal(err)
	}
	defer id.Destroy()
	if err := id.BindAddr(netip.MustParseAddrPort("127.0.0.1:0")); err != nil {
		log.Fatal(err)
	}
	// A queue pair made here, with id.CreateQP, would receive the messages of others.
	if err := id.JoinMulticast(netip.MustParseAddr("239.1.2.3"), rdmacm.FullMember); err != nil {
		log.Fatal(err)
	}
	ev, err := ch.Get(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ev.Type)
	fmt.Println("send to queue pair", ev.UD.QPN, "at", ev.UD.AH.GRH.DGID.Addr())
	// Output:
	// RDMA_CM_EVENT_MULTICAST_JOIN
	// send to queue pair 0xffffff at 239.1.2.3
}

// done ends the program on an error.
func done(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// A server that sleeps until a message comes, and ends when its client has gone. Messages lie in
// blocks of a pool.
func ExampleConn() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var pool *verbs.Pool
	receive := func(c *rdmacm.Conn) error {
		b, err := pool.Get()
		if err != nil {
			return err
		}
		_, err = c.QP().PostRecv(verbs.RecvWR{ID: b.ID(), SGList: []ib.SGE{b.SGE(len(b.Bytes()))}})
		return err
	}
	l, err := rdmacm.ListenAddr("127.0.0.1:0", &rdmacm.Options{Prepare: func(c *rdmacm.Conn) (err error) {
		if pool, err = c.PD.NewPool(256, ib.AccessLocalWrite); err != nil {
			return err
		}
		return errors.Join(receive(c), receive(c))
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := rdmacm.Dial(ctx, l.Addr().String(), nil)
		if err != nil {
			log.Fatal(err)
		}
		var wc [1]ib.WC
		for _, text := range []string{"first", "second", "third"} {
			wr := verbs.SendWR{Opcode: ib.WRSend, Flags: ib.SendInline | ib.SendSignaled, Inline: []byte(text)}
			if _, err := c.QP().PostSend(wr); err != nil {
				log.Fatal(err)
			}
			if _, err := c.SendCQ.Wait(ctx, wc[:]); err != nil {
				log.Fatal(err)
			}
		}
		c.Close()
	}()

	c, err := l.Accept(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for wc, err := range c.RecvCQ.Completions(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		b := pool.Block(wc.WRID)
		if wc.Err() == nil {
			fmt.Printf("%s\n", b.Bytes()[:wc.ByteLen])
			if err := receive(c); err != nil {
				log.Fatal(err)
			}
		}
		b.Release()
		if wc.Status == ib.WCWRFlushErr && c.Context().Err() != nil {
			fmt.Println(context.Cause(c.Context()))
			break
		}
	}
	// Output:
	// first
	// second
	// third
	// connection: the peer has disconnected (connection reset by peer)
}

// A server that looks at each request, and answers it with private data of its own.
func ExampleListener_Request() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	param := func(privateData string) *rdmacm.ConnParam {
		return &rdmacm.ConnParam{PrivateData: []byte(privateData), ResponderResources: rdmacm.MaxRdAtomic,
			InitiatorDepth: rdmacm.MaxRdAtomic, RetryCount: 7, RNRRetryCount: 7}
	}
	l, err := rdmacm.ListenAddr("127.0.0.1:0", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	served := make(chan struct{})
	go func() {
		defer close(served)
		for range 2 {
			r, err := l.Request(ctx)
			if err != nil {
				log.Fatal(err)
			}
			name := string(bytes.TrimRight(r.PrivateData, "\x00"))
			if name != "Alice" {
				r.Reject([]byte("you are not Alice"))
				continue
			}
			if _, err := r.Accept(ctx, &rdmacm.Options{Param: param("welcome, " + name)}); err != nil {
				log.Fatal(err)
			}
		}
	}()
	for _, name := range []string{"Eve", "Alice"} {
		c, err := rdmacm.Dial(ctx, l.Addr().String(), &rdmacm.Options{Param: param(name)})
		var rejected *rdmacm.RejectedError
		switch {
		case errors.As(err, &rejected):
			fmt.Printf("rejected: %s\n", bytes.TrimRight(rejected.PrivateData, "\x00"))
		case err != nil:
			log.Fatal(err)
		default:
			fmt.Printf("accepted: %s\n", bytes.TrimRight(c.PrivateData, "\x00"))
			c.Close()
		}
	}
	<-served
	// Output:
	// rejected: you are not Alice
	// accepted: welcome, Alice
}
