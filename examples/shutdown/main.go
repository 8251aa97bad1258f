// SPDX-License-Identifier: BSD-2-Clause

// Command shutdown ends in order on SIGINT and SIGTERM. The server lends memory, the client
// writes to it. At the end each operation has its completion, each object is destroyed and the
// peer is notified. That also holds when the peer ends first, or is killed.
//
//	shutdown -listen 127.0.0.1:7471
//	shutdown -connect 127.0.0.1:7471
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"verbena/ib"
	"verbena/rdmacm"
	"verbena/verbs"
)

func main() {
	log.SetFlags(0)
	listen := flag.String("listen", "127.0.0.1:7471", "serve at this `address`")
	connect := flag.String("connect", "", "write to the server with this `address`")
	grace := flag.Duration("grace", 2*time.Second, "`time` for pending operations to complete")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if *connect != "" {
		err = write(ctx, *connect, *grace)
	} else {
		err = serve(ctx, *listen)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// serve lends memory to each client until ctx ends, and returns when all connections are closed.
func serve(ctx context.Context, addr string) error {
	l, err := rdmacm.ListenAddr(addr, nil)
	if err != nil {
		return err
	}
	fmt.Println("listening on", l.Addr())
	var conns sync.WaitGroup
	for {
		c, err := l.Accept(ctx)
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return errors.Join(err, l.Close())
		}
		conns.Go(func() {
			if err := lend(ctx, c); err != nil {
				log.Print(err)
			}
		})
	}
	err = l.Close() // refuses requests that wait for Accept
	conns.Wait()
	fmt.Println("closed")
	return err
}

// lend sends the client the address of memory. It closes the connection when the client
// disconnects or dies, or when ctx ends. Close destroys the queue pair before it deregisters
// the memory, so no WRITE finds the memory gone.
func lend(ctx context.Context, c *rdmacm.Conn) (err error) {
	fmt.Println("connected")
	defer func() {
		err = errors.Join(err, c.Close())
		fmt.Println("disconnected")
	}()
	mr, err := c.RegMR(make([]byte, 4096), ib.AccessLocalWrite|ib.AccessRemoteWrite)
	if err != nil {
		return err
	}
	where := binary.BigEndian.AppendUint64(nil, mr.Addr())
	where = binary.BigEndian.AppendUint32(where, uint32(mr.RKey()))
	if _, err := c.QP().PostSend(verbs.SendWR{Opcode: ib.WRSend, Flags: ib.SendInline,
		Inline: where}); err != nil {
		return err
	}
	if err := c.Wait(ctx); ctx.Err() == nil {
		return err
	}
	return nil
}
