// SPDX-License-Identifier: BSD-2-Clause

package rdmacm_test

import (
	"context"
	"fmt"
	"log"

	"verbena/ib"
	"verbena/rdmacm"
	"verbena/verbs"
)

// Example_readme is the program in README.md: a connection over which one side
// writes into the other's memory.
func Example_readme() {
	ctx := context.Background()
	l := must(rdmacm.ListenAddr("127.0.0.1:0", nil))
	accepted := make(chan *rdmacm.Conn)
	go func() { accepted <- must(l.Accept(ctx)) }()
	client, server := must(rdmacm.Dial(ctx, l.Addr().String(), nil)), <-accepted

	dst := must(server.RegMR(make([]byte, 11), ib.AccessLocalWrite|ib.AccessRemoteWrite))
	src := must(client.RegMR([]byte("hello, RDMA"), 0))
	must(client.QP().PostSend(verbs.SendWR{
		Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled, SGList: []ib.SGE{src.SGE(0, 11)},
		RemoteAddr: dst.Addr(), RKey: dst.RKey(),
	}))
	wc := make([]ib.WC, 1)
	for must(client.SendCQ.Poll(wc)) == 0 {
	}
	fmt.Printf("%v: %s\n", wc[0].Status, dst.Bytes())
	// Output: success: hello, RDMA
}

// must ends the program on an error.
func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
