// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"verbena/rsocket"
)

// goKinds are the kinds of devices over which C programs and Go's package rsocket are peers.
var goKinds = []string{"roce", "iwarp", "trp"}

// peerCommand returns a command over our libraries, for devices of one kind.
func peerCommand(t *testing.T, kind, program string, args ...string) *exec.Cmd {
	t.Helper()
	lib, err := libDir()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), within)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+lib, "VERBENA_DEVICES="+kind)
	return cmd
}

// dialPeer starts a program that prints its port, and connects to it.
func dialPeer(t *testing.T, kind, network, program string) (*exec.Cmd, net.Conn) {
	t.Helper()
	cmd := peerCommand(t, kind, program, "127.0.0.1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	c, err := rsocket.Dial(network, net.JoinHostPort("127.0.0.1", strings.TrimSpace(port)))
	if err != nil {
		t.Fatal(err)
	}
	return cmd, c
}

// echo sends back what one connection brings.
func echo(t *testing.T, l net.Listener) {
	c, err := l.Accept()
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	if _, err := io.Copy(c, c); err != nil {
		t.Error(err)
	}
	if err := c.(*rsocket.Conn).CloseWrite(); err != nil {
		t.Error(err)
	}
	c.Read(make([]byte, 1)) // the peer's end
}

// goListener listens over a kind of devices. A goroutine answers its first connection.
func goListener(t *testing.T, kind string) (addr, port string) {
	t.Helper()
	l, err := rsocket.Listen(kind, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		echo(t, l)
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	addr, port, _ = net.SplitHostPort(l.Addr().String())
	return addr, port
}

// pattern is the bytes of a stream: rs_byte of testdata/rsocket.h.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i/251)
	}
	return b
}

// TestGoServesC: a C program connects to one in Go.
func TestGoServesC(t *testing.T) {
	program := compile(t, "peer_rsocket")
	for _, kind := range goKinds {
		t.Run(kind, func(t *testing.T) {
			addr, port := goListener(t, kind)
			if out, err := peerCommand(t, kind, program, addr, port).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestCServesGo: a program in Go connects to one in C.
func TestCServesGo(t *testing.T) {
	program := compile(t, "peer_rsocket")
	for _, kind := range goKinds {
		t.Run(kind, func(t *testing.T) {
			cmd, c := dialPeer(t, kind, kind, program)
			want := pattern(1_000_000)
			go func() {
				if _, err := c.Write(want); err != nil {
					t.Error(err)
				}
				if err := c.(*rsocket.Conn).CloseWrite(); err != nil {
					t.Error(err)
				}
			}()
			if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes: %v", len(got), err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

// rstreamArgs make transfers that fit into the buffers of an end that echoes.
var rstreamArgs = []string{"-S", "1000", "-C", "100", "-I", "20", "-T", "v"}

func rstream(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("rstream")
	if err != nil {
		t.Skip("rstream of rdmacm-utils is not installed: ", err)
	}
	return program
}

// TestRstreamConnectsToGo: rdma-core's rstream is the client.
func TestRstreamConnectsToGo(t *testing.T) {
	for _, kind := range goKinds {
		t.Run(kind, func(t *testing.T) {
			addr, port := goListener(t, kind)
			args := append([]string{"-s", addr, "-p", port}, rstreamArgs...)
			if out, err := peerCommand(t, kind, rstream(t), args...).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestGoConnectsToRstream: rdma-core's rstream is the server.
func TestGoConnectsToRstream(t *testing.T) {
	for _, kind := range goKinds {
		t.Run(kind, func(t *testing.T) {
			free, err := rsocket.Listen(kind, "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			addr := free.Addr().String()
			_, port, _ := net.SplitHostPort(addr)
			free.Close()
			args := append([]string{"-b", "127.0.0.1", "-p", port}, rstreamArgs...)
			cmd := peerCommand(t, kind, rstream(t), args...)
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			runClient(t, kind, addr)
			if err := cmd.Wait(); err != nil {
				t.Errorf("%v\n%s", err, &out)
			}
		})
	}
}

// runClient is rstream's client: 16 bytes there and back, then the transfers. Bytes count from 0.
func runClient(t *testing.T, kind, addr string) {
	t.Helper()
	c, err := rsocket.Dial(kind, addr)
	for end := time.Now().Add(20 * time.Second); err != nil && time.Now().Before(end); {
		c, err = rsocket.Dial(kind, addr) // until it listens
	}
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var out, in byte
	sizes := []int{16}
	for range 20 {
		sizes = append(sizes, 1000*100)
	}
	for i, n := range sizes {
		b := make([]byte, n)
		for k := range b {
			b[k] = out
			out++
		}
		if _, err := c.Write(b); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, b); err != nil {
			t.Fatal(err)
		}
		for k := range b {
			if b[k] != in {
				t.Fatalf("transfer %d: byte %d is %d, want %d", i, k, b[k], in)
			}
			in++
		}
	}
}
