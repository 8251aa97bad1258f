// SPDX-License-Identifier: BSD-2-Clause

package rping

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	"verbena/internal/testkit/loopback"
)

// listening starts a server and returns its port and a function that waits for
// its end.
func listening(t *testing.T, ctx context.Context, addr, line string) (port string, wait func() (string, error)) {
	t.Helper()
	loopback.Device(t)
	o, err := parse("-s -a " + addr + " " + line)
	if err != nil {
		t.Fatal(err)
	}
	o.port = 0
	at := make(chan netip.AddrPort, 1)
	o.listening = func(a netip.AddrPort) { at <- a }
	var out, log bytes.Buffer
	done := make(chan error, 1)
	go func() { done <- runServer(ctx, o, &out, &log) }()
	select {
	case a := <-at:
		_, port, _ = strings.Cut(strings.TrimPrefix(a.String(), "["+a.Addr().String()+"]"), ":")
	case err := <-done:
		t.Fatalf("server: %v", err)
	}
	return port, func() (string, error) {
		err := <-done
		return out.String(), err
	}
}

func client(ctx context.Context, addr, port, line string) (string, error) {
	o, err := parse("-c -a " + addr + " -p " + port + " " + line)
	if err != nil {
		return "", err
	}
	var out, log bytes.Buffer
	err = runClient(ctx, o, &out, &log)
	return out.String(), err
}

func TestEveryModeOverLoopback(t *testing.T) {
	for _, c := range []struct{ server, client, want string }{
		{"-v", "-C 3 -V -v", "ping data: rdma-ping-2: CDEFG"},
		{"", "-C 20 -V -S 65535", ""},
		{"--mem fastreg", "--mem fastreg -C 10 -V", ""},
		{"--mem fastreg --server-inv", "--mem fastreg --server-inv -C 10 -V", ""},
		{"--mem fastreg --read-inv", "--mem fastreg -C 10 -V", ""},
		{"--mem mw", "--mem mw -C 10 -V", ""},
		{"--mem mw --server-inv", "--mem mw --server-inv -C 10 -V", ""},
		{"--mem plain", "--mem mw -C 10 -V", ""},
		{"--wlat -C 50", "--wlat -C 50", "WRITE latency"},
		{"--wlat -C 20 --mem fastreg", "--wlat -C 20 --mem fastreg", "WRITE latency"},
		{"--rlat -C 20", "--rlat -C 20", "READ latency"},
		{"--rlat -C 20", "--rlat -C 20 --poll", "READ latency"},
		{"--bw -C 50 -S 65535", "--bw -C 50 -S 65535 --txdepth 8", "WRITE bandwidth"},
		{"--bw --duplex -C 50", "--bw --duplex -C 50", "delta nsec "},
		{"--kind iwarp", "--kind iwarp -C 100 -V -S 65535", ""},
		{"--kind iwarp --mem fastreg --server-inv", "--kind iwarp --mem fastreg --server-inv -C 10 -V", ""},
		{"--kind iwarp --mem mw --server-inv", "--kind iwarp --mem mw --server-inv -C 10 -V", ""},
		{"--kind iwarp --rlat -C 20", "--kind iwarp --rlat -C 20", "READ latency"},
	} {
		t.Run(c.server+" | "+c.client, func(t *testing.T) {
			serverOut := exchange(t, "127.0.0.1", c.server, c.client, c.want)
			if c.server == "-v" && !strings.HasPrefix(serverOut, "server ping data: rdma-ping-0: ABC") {
				t.Errorf("server printed %q", serverOut)
			}
		})
	}
}

// exchange runs a server and its client, which must print want, and returns the server's output.
func exchange(t *testing.T, addr, serverLine, clientLine, want string) (serverOut string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	port, wait := listening(t, ctx, addr, serverLine)
	out, err := client(ctx, addr, port, clientLine)
	if err != nil {
		t.Errorf("client: %v", err)
		cancel()
	}
	if serverOut, err = wait(); err != nil {
		t.Errorf("server: %v", err)
	}
	if !strings.Contains(out, want) {
		t.Errorf("client printed %q, want %q in it", out, want)
	}
	return serverOut
}

func TestOverIPv6(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	port, wait := listening(t, ctx, "::1", "")
	if _, err := client(ctx, "::1", port, "-C 5 -V"); err != nil {
		t.Errorf("client: %v", err)
		cancel()
	}
	if _, err := wait(); err != nil {
		t.Errorf("server: %v", err)
	}
}

func TestPersistentServerServesManyAtOnce(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	port, wait := listening(t, ctx, "127.0.0.1", "-P")
	const clients = backlog // one more at once would come again 4 s later
	done := make(chan error, clients)
	for range clients {
		go func() {
			_, err := client(ctx, "127.0.0.1", port, "-C 10 -V")
			done <- err
		}()
	}
	for range clients {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	cancel()
	if _, err := wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("server: %v", err)
	}
}

func TestNobodyListening(t *testing.T) {
	loopback.Device(t)
	_, err := client(t.Context(), "127.0.0.1", "7", "-C 1")
	if err == nil || !strings.Contains(err.Error(), "start 'verbena rping -s' there first") {
		t.Errorf("error %v", err)
	}
}

// Options of the process's devices hold, each of them: one that is wrong is said.
func TestOptionsOfDevicesHold(t *testing.T) {
	loopback.Device(t)
	over, cancel := context.WithCancel(t.Context())
	cancel() // a server would end at once
	c := Command()
	c.SetArgs([]string{"-s", "-a", "127.0.0.1", "--xdp", "eth0:0"})
	c.SilenceErrors, c.SilenceUsage = true, true
	if err := c.ExecuteContext(over); err == nil || !strings.Contains(err.Error(), `"eth0:0" is no interface`) {
		t.Errorf("error %v", err)
	}
}

func TestServersAddressMustBeOurs(t *testing.T) {
	loopback.Device(t)
	o, err := parse("-s -a 192.0.2.77")
	if err != nil {
		t.Fatal(err)
	}
	err = runServer(t.Context(), o, &bytes.Buffer{}, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "no device has the address 192.0.2.77") {
		t.Errorf("error %v", err)
	}
}

func TestPortInUseIsSaid(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	port, wait := listening(t, ctx, "127.0.0.1", "")
	o, err := parse("-s -a 127.0.0.1 -p " + port)
	if err != nil {
		t.Fatal(err)
	}
	err = runServer(ctx, o, &bytes.Buffer{}, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "is in use") || !strings.Contains(err.Error(), "choose another with -p") {
		t.Errorf("error %v", err)
	}
	cancel()
	wait()
}

func TestSilentServerEndsTheClientWithWhatToDo(t *testing.T) {
	loopback.Device(t)
	o, err := parse("-c -a 127.0.0.1 -C 1")
	if err != nil {
		t.Fatal(err)
	}
	o.patience = time.Nanosecond
	err = runClient(t.Context(), o, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:7174 does not answer") || !strings.Contains(err.Error(), "start 'verbena rping -s' there") ||
		!strings.Contains(err.Error(), "for RoCE, that UDP port 4791") {
		t.Errorf("error %v", err)
	}
}
