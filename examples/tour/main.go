// SPDX-License-Identifier: BSD-2-Clause

// Command tour shows two-sided and one-sided RDMA between a server and a client, both in
// this process. docs/rdma.md explains it.
package main

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"log"

	"verbena/ib"
	"verbena/rdmacm"
	"verbena/verbs"
)

func main() {
	pcap := flag.String("pcap", "", "write the packets to this `file`")
	flag.Parse()
	if *pcap != "" { // the first Open of a process takes the options
		must(verbs.Open("", verbs.WithCapture(*pcap)))
		defer verbs.FlushCapture()
	}

	// The connection manager makes a queue pair at each end and connects them.
	ctx := context.Background()
	listener := must(rdmacm.ListenAddr("127.0.0.1:0", nil))
	accepted := make(chan *rdmacm.Conn)
	go func() { accepted <- must(listener.Accept(ctx)) }()
	client := must(rdmacm.Dial(ctx, listener.Addr().String(), nil))
	server := <-accepted

	// The server registers memory that its peer may read and write.
	board := must(server.RegMR([]byte("written by the server"),
		ib.AccessLocalWrite|ib.AccessRemoteRead|ib.AccessRemoteWrite))

	// Two-sided: the client posts a receive, the server sends. The message says where the
	// board is, and under which key.
	inbox := must(client.RegMR(make([]byte, 64), ib.AccessLocalWrite))
	must(client.QP().PostRecv(verbs.RecvWR{SGList: []ib.SGE{inbox.SGE(0, 64)}}))
	message := binary.BigEndian.AppendUint64(nil, board.Addr())
	message = binary.BigEndian.AppendUint32(message, uint32(board.RKey()))
	must(server.QP().PostSend(verbs.SendWR{
		Opcode: ib.WRSend, Flags: ib.SendInline | ib.SendSignaled, Inline: message,
	}))
	fmt.Println("server:", wait(server.SendCQ))
	fmt.Println("client:", wait(client.RecvCQ))
	addr := binary.BigEndian.Uint64(inbox.Bytes())
	rkey := ib.RKey(binary.BigEndian.Uint32(inbox.Bytes()[8:]))
	fmt.Printf("client: the board is at %#x, its rkey is %#x\n", addr, uint32(rkey))

	// One-sided: the client reads the board, and writes to it. The server does nothing.
	n := len(board.Bytes())
	page := must(client.RegMR(make([]byte, n), ib.AccessLocalWrite))
	wr := verbs.SendWR{
		Opcode: ib.WRRDMARead, Flags: ib.SendSignaled, SGList: []ib.SGE{page.SGE(0, n)},
		RemoteAddr: addr, RKey: rkey,
	}
	must(client.QP().PostSend(wr))
	fmt.Printf("client: %s: %q\n", wait(client.SendCQ), page.Bytes())
	copy(page.Bytes(), "written by the client")
	wr.Opcode = ib.WRRDMAWrite
	must(client.QP().PostSend(wr))
	fmt.Println("client:", wait(client.SendCQ))
	fmt.Printf("server: the board is %q\n", board.Bytes())

	// A key that the server has not given out opens nothing, and ends the connection.
	wr.RKey++
	must(client.QP().PostSend(wr))
	fmt.Println("client:", wait(client.SendCQ))
	fmt.Println("client: the queue pair is in state", client.QP().State())
}

// wait polls for a completion, and returns its operation or its error.
func wait(cq *verbs.CQ) string {
	var wc [1]ib.WC
	for must(cq.Poll(wc[:])) == 0 {
	}
	if err := wc[0].Err(); err != nil {
		return err.Error()
	}
	return wc[0].Opcode.String() + " completed"
}

// must ends the program on an error.
func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
