// SPDX-License-Identifier: BSD-2-Clause

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"verbena/rsocket"
)

// echo sends one client's bytes back until it closes, as the server of rdma-core's rstream does
// for one that verifies data.
func echo(addr string) error {
	l, err := rsocket.Listen(*kind, addr)
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Println("listening")
	conn, err := l.Accept()
	if err != nil {
		return err
	}
	defer conn.Close()
	n, err := io.Copy(conn, conn)
	fmt.Printf("echoed %d\n", n)
	return err
}

// exchange has a server of rstream send back 16 bytes, and then count messages of the given length.
// The bytes of all messages count on from 0, as rstream's do.
func exchange(ctx context.Context, addr string, length, count int) error {
	conn, err := rsocket.DialContext(ctx, *kind, addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	next := byte(0)
	for i := range count + 1 {
		n := length
		if i == 0 {
			n = 16
		}
		sent, got := make([]byte, n), make([]byte, n)
		for k := range sent {
			sent[k] = next
			next++
		}
		if _, err := conn.Write(sent); err != nil {
			return err
		}
		if _, err := io.ReadFull(conn, got); err != nil {
			return err
		}
		if !bytes.Equal(sent, got) {
			return fmt.Errorf("message %d came back with other bytes", i)
		}
	}
	fmt.Printf("exchanged %d\n", count)
	return nil
}
