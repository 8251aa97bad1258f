// SPDX-License-Identifier: BSD-2-Clause

package requests

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"

	"verbena/internal/sys/freeport"
)

// start runs a side and returns the lines that it prints and the end of its input.
func start(t *testing.T, args string) (say io.WriteCloser, lines *bufio.Reader, done chan error) {
	in, say := io.Pipe()
	out, words := io.Pipe()
	done = make(chan error, 1)
	go func() {
		err := Run(t.Context(), strings.Fields(args), in, words)
		words.CloseWithError(err)
		done <- err
	}()
	return say, bufio.NewReader(out), done
}

func TestClientsAreAnswered(t *testing.T) {
	for _, over := range []string{"tcp", "roce", "iwarp", "rsocket", "http", "http-rsocket"} {
		t.Run(over, func(t *testing.T) {
			atOnce := 60
			if strings.HasPrefix(over, "http") {
				atOnce = 3
			}
			n := 0
			for _, seconds := range []string{"0.05", "0.5", "5"} { // a loaded machine takes longer
				if n = answered(t, over, seconds); n >= atOnce {
					return
				}
			}
			t.Errorf("%d answers, fewer than are asked for at once", n)
		})
	}
}

// answered returns the answers of three connections in a time.
func answered(t *testing.T, over, seconds string) int {
	port, err := freeport.Free()
	if err != nil {
		t.Fatal(err)
	}
	load := " 127.0.0.1 " + strconv.Itoa(port) + " 4096 3 20 " + seconds
	_, lines, served := start(t, over+" server"+load)
	hear := func(from *bufio.Reader, word string) (count int) {
		line, err := from.ReadString('\n')
		var seconds float64
		if err == nil {
			_, err = fmt.Sscanf(line, word+" %d %g", &count, &seconds)
		}
		if err != nil {
			t.Fatalf("no %q but %q: %v", word, line, err)
		}
		return count
	}
	hear(lines, "ready")
	if over == "roce" || over == "iwarp" {
		c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			c.Close()
		}
		if overTCP := err == nil; overTCP != (over == "iwarp") {
			t.Errorf("a listener at the TCP port: %v, over %s", overTCP, over)
		}
	}
	say, lines, asked := start(t, over+" client"+load)
	if n := hear(lines, "connected"); n != 3 {
		t.Errorf("%d connections, want 3", n)
	}
	fmt.Fprintln(say, "go")
	n := hear(lines, "answered")
	say.Close()
	for _, done := range []chan error{asked, served} {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	return n
}
