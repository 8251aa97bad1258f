// SPDX-License-Identifier: BSD-2-Clause

package rsocket_test

import (
	"fmt"
	"log"

	"verbena/rsocket"
)

// A server answers datagrams, and its client is one of package net but for the call that dials.
func ExampleListenPacket() {
	server, err := rsocket.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	go func() {
		b := make([]byte, 2048)
		for {
			n, from, err := server.ReadFrom(b)
			if err != nil {
				return // closed
			}
			server.WriteTo(append([]byte("re: "), b[:n]...), from)
		}
	}()

	client, err := rsocket.Dial("udp", server.LocalAddr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	fmt.Fprint(client, "ping")
	b := make([]byte, 2048)
	n, err := client.Read(b)
	fmt.Printf("%s %v\n", b[:n], err)
	// Output: re: ping <nil>
}
