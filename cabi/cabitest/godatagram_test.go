// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"bytes"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"verbena/rsocket"
)

// goEcho makes a socket of datagrams. A goroutine sends back what it receives.
func goEcho(t *testing.T) (addr, port string) {
	t.Helper()
	c, err := rsocket.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 4096)
		for {
			n, from, err := c.ReadFrom(b)
			if err != nil {
				return // closed
			}
			if _, err := c.WriteTo(b[:n], from); err != nil {
				t.Error(err)
			}
		}
	}()
	t.Cleanup(func() {
		c.Close()
		<-done
	})
	addr, port, _ = net.SplitHostPort(c.LocalAddr().String())
	return addr, port
}

// TestGoAnswersDatagramsOfC: a C program sends to one in Go.
func TestGoAnswersDatagramsOfC(t *testing.T) {
	addr, port := goEcho(t)
	out, err := peerCommand(t, "roce", compile(t, "peer_datagram"), addr, port).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestCAnswersDatagramsOfGo: a program in Go sends to one in C.
func TestCAnswersDatagramsOfGo(t *testing.T) {
	cmd, c := dialPeer(t, "roce", "udp4", compile(t, "peer_datagram"))
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	back := make([]byte, 4096)
	for round := range 300 {
		want := pattern(2032)[:round*7%2032+1]
		if round == 299 {
			want = nil // ends the peer
		}
		if _, err := c.Write(want); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Read(back); err != nil || !bytes.Equal(back[:n], want) {
			t.Fatalf("round %d: %d bytes of %d, %v", round, n, len(want), err)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestUdpongExchangesWithGo: rdma-core's udpong is the client. With -T e it expects each message
// back, which the program in Go sends.
func TestUdpongExchangesWithGo(t *testing.T) {
	program, err := exec.LookPath("udpong")
	if err != nil {
		t.Skip("udpong of rdmacm-utils is not installed: ", err)
	}
	addr, port := goEcho(t)
	out, err := peerCommand(t, "roce", program, "-s", addr, "-p", port, "-C", "200", "-S", "1000", "-T", "e").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "usec/xfer") {
		t.Errorf("%v\n%s", err, out)
	}
}
