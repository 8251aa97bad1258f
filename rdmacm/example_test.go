// SPDX-License-Identifier: BSD-2-Clause

package rdmacm_test

import (
	"context"
	"fmt"
	"log"
	"net/netip"
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

// next waits for a completion.
func next(cq *verbs.CQ) ib.WC {
	var wc [1]ib.WC
	for {
		n, err := cq.Poll(wc[:])
		if err != nil {
			log.Fatal(err)
		}
		if n == 1 {
			return wc[0]
		}
		time.Sleep(50 * time.Microsecond)
	}
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
	// A queue pair made here, with id.CreateQP, would receive what others send.
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
