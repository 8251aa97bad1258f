// SPDX-License-Identifier: BSD-2-Clause

// Command rpc is package net/rpc over RDMA: a server that counts words, and its client. Only the
// listener and the connection differ from a program over TCP.
//
//	rpc -listen 127.0.0.1:7472
//	rpc -connect 127.0.0.1:7472 "to be or not to be"
package main

import (
	"flag"
	"fmt"
	"log"
	"net/rpc"
	"slices"
	"strings"

	"verbena/rsocket"
)

// Words is the service.
type Words struct{}

// Count is its method: it stores how often each word of a text occurs.
func (Words) Count(text string, counts *map[string]int) error {
	*counts = map[string]int{}
	for word := range strings.FieldsSeq(text) {
		(*counts)[word]++
	}
	return nil
}

func main() {
	log.SetFlags(0)
	listen := flag.String("listen", "127.0.0.1:7472", "serve at this `address` of this host")
	connect := flag.String("connect", "", "count the words of the arguments at this `address`")
	network := flag.String("network", "roce", "roce, iwarp, trp or ntb")
	flag.Parse()
	var err error
	if *connect != "" {
		err = ask(*network, *connect, flag.Args())
	} else {
		err = serve(*network, *listen)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func serve(network, addr string) error {
	server := rpc.NewServer()
	if err := server.Register(Words{}); err != nil {
		return err
	}
	l, err := rsocket.Listen(network, addr)
	if err != nil {
		return err
	}
	fmt.Println("listening on", l.Addr())
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go server.ServeConn(c)
	}
}

// ask has the words of texts counted, and prints the counts.
func ask(network, addr string, texts []string) error {
	c, err := rsocket.Dial(network, addr)
	if err != nil {
		return err
	}
	client := rpc.NewClient(c)
	defer client.Close()
	var counts map[string]int
	if err := client.Call("Words.Count", strings.Join(texts, " "), &counts); err != nil {
		return err
	}
	var words []string
	for word := range counts {
		words = append(words, word)
	}
	slices.Sort(words)
	for _, word := range words {
		fmt.Println(word, counts[word])
	}
	return nil
}
