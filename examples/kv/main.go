// SPDX-License-Identifier: BSD-2-Clause

// Command kv is a key-value store. A client gets a value by one READ of the server's table, without
// the server's program. To put a value it asks the server.
//
//	kv -listen 127.0.0.1:7471
//	kv -connect 127.0.0.1:7471 put colour green
//	kv -connect 127.0.0.1:7471 get colour
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"time"

	"verbena/ib"
	"verbena/rdmacm"
	"verbena/verbs"
)

func main() {
	log.SetFlags(0)
	listen := flag.String("listen", "", "serve at this `address` of this host")
	connect := flag.String("connect", "", "put or get at the server with this `address`")
	flag.Parse()
	var err error
	switch arg := flag.Arg; {
	case *listen != "" && flag.NArg() == 0:
		err = serve(context.Background(), *listen)
	case *connect != "" && arg(0) == "put" && flag.NArg() == 3:
		err = withClient(*connect, func(c *client) error { return c.put(arg(1), arg(2)) })
	case *connect != "" && arg(0) == "get" && flag.NArg() == 2:
		err = withClient(*connect, func(c *client) error {
			value, err := c.get(arg(1))
			if err == nil {
				fmt.Println(value)
			}
			return err
		})
	default:
		fmt.Fprintln(os.Stderr, "usage: kv -listen ADDR | kv -connect ADDR put KEY VALUE "+
			"| kv -connect ADDR get KEY")
		os.Exit(2)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// client is a connection to a server whose table is known.
type client struct {
	*rdmacm.Conn
	ctx   context.Context
	table uint64 // its address at the server
	rkey  ib.RKey
	page  *verbs.MR // the part of the table that is read
	inbox *verbs.MR // the answer to a put
}

// withClient connects for one call of do.
func withClient(addr string, do func(*client) error) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c := &client{ctx: ctx}
	prepare := func(conn *rdmacm.Conn) (err error) {
		if c.page, err = conn.RegMR(make([]byte, probes*slotSize),
			ib.AccessLocalWrite); err != nil {
			return err
		}
		c.inbox, err = conn.RegMR(make([]byte, slotSize), ib.AccessLocalWrite)
		return err
	}
	c.Conn, err = rdmacm.Dial(ctx, addr, &rdmacm.Options{Prepare: prepare})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if len(c.PrivateData) < 12 {
		return errors.New("the server has not said where its table is")
	}
	c.table = binary.BigEndian.Uint64(c.PrivateData)
	c.rkey = ib.RKey(binary.BigEndian.Uint32(c.PrivateData[8:]))
	return do(c)
}

// get reads the slots in which key may be. It reads them again if a checksum is wrong: the server
// was writing that slot.
func (c *client) get(key string) (string, error) {
	for c.ctx.Err() == nil {
		_, err := c.QP().PostSend(verbs.SendWR{
			Opcode: ib.WRRDMARead, Flags: ib.SendSignaled,
			SGList:     []ib.SGE{c.page.SGE(0, probes*slotSize)},
			RemoteAddr: c.table + uint64(home(key))*slotSize, RKey: c.rkey,
		})
		if err != nil {
			return "", err
		}
		if _, err := c.await(c.SendCQ); err != nil {
			return "", err
		}
		switch value, err := find(c.page.Bytes(), key); {
		case err == errTorn:
		case err != nil:
			return "", err
		default:
			return value, nil
		}
	}
	return "", c.ctx.Err()
}

// put sends a slot to the server, and waits for the answer: the reason of a refusal, or nothing.
func (c *client) put(key, value string) error {
	slot, err := makeSlot(key, value)
	if err != nil {
		return err
	}
	if _, err := c.QP().PostRecv(
		verbs.RecvWR{SGList: []ib.SGE{c.inbox.SGE(0, slotSize)}}); err != nil {
		return err
	}
	copy(c.page.Bytes(), slot)
	_, err = c.QP().PostSend(verbs.SendWR{Opcode: ib.WRSend, Flags: ib.SendSignaled,
		SGList: []ib.SGE{c.page.SGE(0, slotSize)}})
	if err != nil {
		return err
	}
	if _, err := c.await(c.SendCQ); err != nil {
		return err
	}
	wc, err := c.await(c.RecvCQ)
	if err == nil && wc.ByteLen > 0 {
		err = errors.New(string(c.inbox.Bytes()[:wc.ByteLen]))
	}
	return err
}

// await polls for a completion.
func (c *client) await(cq *verbs.CQ) (ib.WC, error) {
	var wc [1]ib.WC
	for c.ctx.Err() == nil {
		if n, err := cq.Poll(wc[:]); n == 1 || err != nil {
			return wc[0], errors.Join(err, wc[0].Err())
		}
	}
	return wc[0], c.ctx.Err()
}
