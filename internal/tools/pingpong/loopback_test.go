// SPDX-License-Identifier: BSD-2-Clause

package pingpong

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"verbena/internal/testkit/loopback"
	"verbena/rdmacm"
)

// both runs server and client with the same options and returns their outputs.
func both(t *testing.T, kind, line string) (server, client string) {
	t.Helper()
	line = kind + " " + line + " -d " + loopback.Device(t)
	server, client, serverErr, clientErr := apart(t, line, line)
	if serverErr != nil || clientErr != nil {
		t.Errorf("server: %v; client: %v", serverErr, clientErr)
	}
	return server, client
}

// apart runs server and client with options of their own.
func apart(t *testing.T, serverLine, clientLine string) (server, client string, serverErr, clientErr error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	end := func(line string) *options {
		o, err := parse(t, line)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	s, c := end(serverLine), end(clientLine)
	s.tcpPort = 0
	port := make(chan int, 1)
	s.listening = func(a net.Addr) { port <- a.(*net.TCPAddr).Port }
	var serverOut, clientOut bytes.Buffer
	done := make(chan error, 1)
	go func() { done <- pingpong(ctx, s, &serverOut, &serverOut) }()
	select {
	case c.tcpPort = <-port:
	case err := <-done:
		t.Fatalf("server: %v", err)
	}
	c.host = "127.0.0.1"
	if clientErr = pingpong(ctx, c, &clientOut, &clientOut); clientErr != nil {
		cancel()
	}
	serverErr = <-done
	return serverOut.String(), clientOut.String(), serverErr, clientErr
}

var resultLines = regexp.MustCompile(`(?m)^(\d+) bytes in \d+\.\d\d seconds = \d+\.\d\d Mbit/sec\n(\d+) iters in \d+\.\d\d seconds = \d+\.\d\d usec/iter$`)

func TestEveryKindOverLoopback(t *testing.T) {
	for _, c := range []struct{ name, kind, line string }{
		{"rc", "rc", "-n 100 -c"},
		{"rc of 256 byte packets", "rc", "-n 50 -m 256 -s 5000 -c"},
		{"rc by events", "rc", "-n 50 -e"},
		{"rc that posts receives anew", "rc", "-n 100 -r 10"},
		{"uc", "uc", "-n 100 -c"},
		{"ud", "ud", "-n 100 -c"},
		{"ud by events", "ud", "-n 20 -e"},
		{"srq", "srq", "-n 200 -q 4 -c"},
		{"srq with a receive for each", "srq", "-n 100 -q 4 -r 4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			server, client := both(t, c.kind, c.line)
			for side, out := range map[string]string{"server": server, "client": client} {
				if !resultLines.MatchString(out) || !strings.Contains(out, "remote address: LID 0x0000, QPN 0x") || strings.Contains(out, "invalid") {
					t.Errorf("%s printed\n%s", side, out)
				}
			}
		})
	}
}

// TestOverIWARP: the connection manager connects where nothing else can.
func TestOverIWARP(t *testing.T) {
	lo := strings.TrimPrefix(loopback.Device(t), "roce")
	for _, kind := range []string{"iwarp", "trp"} {
		if kind == "iwarp" && runtime.GOOS != "linux" {
			continue // there is none
		}
		for _, line := range []string{"rc -n 100 -c", "rc -n 50 -e -r 10 -s 100000", "srq -n 200 -q 4 -c", "srq -n 100 -q 4 -r 4 -e"} {
			line += " -d " + kind + lo
			t.Run(line, func(t *testing.T) {
				server, client, serverErr, clientErr := apart(t, line, line)
				if serverErr != nil || clientErr != nil {
					t.Errorf("server: %v; client: %v", serverErr, clientErr)
				}
				for side, out := range map[string]string{"server": server, "client": client} {
					if !resultLines.MatchString(out) || strings.Contains(out, "invalid") || strings.Contains(out, "LID 0x0000") {
						t.Errorf("%s printed\n%s", side, out)
					}
				}
			})
		}
		for _, d := range [][2]string{{kind, "roce"}, {"roce", kind}, {"trp", "iwarp"}, {"iwarp", "trp"}} {
			_, _, serverErr, clientErr := apart(t, "rc -d "+d[0]+lo, "rc -d "+d[1]+lo)
			if serverErr == nil || !strings.Contains(serverErr.Error(), "choose with -d on both sides") || clientErr == nil {
				t.Errorf("server on %s, client on %s: %v; %v", d[0], d[1], serverErr, clientErr)
			}
		}
		o, err := parse(t, "uc -d "+kind+lo)
		if err != nil {
			t.Fatal(err)
		}
		if err := pingpong(t.Context(), o, &bytes.Buffer{}, &bytes.Buffer{}); !errors.Is(err, syscall.EOPNOTSUPP) {
			t.Errorf("%s has no UC: %v", kind, err)
		}
	}
}

// TestStrangersAtTheServersPort are turned away, and the client is not.
func TestStrangersAtTheServersPort(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("this system has no iWARP device: run on Linux")
	}
	o, err := parse(t, "rc -d iwarp"+strings.TrimPrefix(loopback.Device(t), "roce"))
	if err != nil {
		t.Fatal(err)
	}
	e, err := open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer e.close()
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { done <- e.cm.acceptAll(ctx, []Address{{LID: 0xffff, QPN: 1}}) }()
	var refused *rdmacm.RejectedError
	for _, private := range []string{"", "no address", string(Address{QPN: 2}.Append(nil))} {
		at := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), e.local[0].LID).String()
		if _, err := rdmacm.Dial(ctx, at, &rdmacm.Options{Kind: rdmacm.IWARP, Param: &rdmacm.ConnParam{PrivateData: []byte(private)}}); !errors.As(err, &refused) {
			t.Errorf("a stranger that says %q: %v", private, err)
		}
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the server: %v", err)
	}
}

// TestServerThatDoesNotAnswer has the client say so.
func TestServerThatDoesNotAnswer(t *testing.T) {
	silent, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	o, err := parse(t, "rc -d trp"+strings.TrimPrefix(loopback.Device(t), "roce"))
	if err != nil {
		t.Fatal(err)
	}
	e, err := open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer e.close()
	ctx, cancel := context.WithCancelCause(t.Context())
	impatient := errors.New("impatient")
	go func() {
		silent.Read(make([]byte, 100)) // the Request
		cancel(impatient)
	}()
	to := silent.LocalAddr().(*net.UDPAddr).AddrPort()
	if err := e.cm.dialAll(ctx, to.Addr(), []Address{{LID: to.Port()}}); !errors.Is(err, impatient) || !strings.Contains(err.Error(), "cannot connect to "+to.String()) {
		t.Errorf("the client: %v", err)
	}
}

func TestWhatADeviceCannotDoIsSaidBeforeAPeerComes(t *testing.T) {
	dev := loopback.Device(t)
	for line, want := range map[string]string{
		"rc -g 200 -d " + dev:       "has no GID at index 200; there are 0 (",
		"rc -i 2 -d " + dev:         "no usable port 2",
		"ud -s 100000 -d " + dev:    "use a smaller -s",
		"rc -d roce_none":           "no device named roce_none; there are ",
		"srq -r 30000000 -d " + dev: "30000000",
	} {
		o, err := parse(t, line)
		if err != nil {
			t.Fatal(err)
		}
		err = pingpong(t.Context(), o, &bytes.Buffer{}, &bytes.Buffer{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q in it", line, err, want)
		}
	}
}
