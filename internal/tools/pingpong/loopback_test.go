package pingpong

import (
	"bytes"
	"context"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"verbena/internal/testkit/loopback"
)

// both runs server and client with the same options and returns what they
// printed.
func both(t *testing.T, kind, line string) (server, client string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	dev := loopback.Device(t)
	end := func() *options {
		o, err := parse(t, kind+" "+line+" -d "+dev)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	s, c := end(), end()
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
	if err := pingpong(ctx, c, &clientOut, &clientOut); err != nil {
		t.Errorf("client: %v", err)
		cancel()
	}
	if err := <-done; err != nil {
		t.Errorf("server: %v", err)
	}
	return serverOut.String(), clientOut.String()
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

func TestWhatADeviceCannotDoIsSaidBeforeAPeerComes(t *testing.T) {
	dev := loopback.Device(t)
	for line, want := range map[string]string{
		"rc -g 200 -d " + dev:                               "has no GID at index 200; there are 0 (",
		"rc -i 2 -d " + dev:                                 "no usable port 2",
		"ud -s 100000 -d " + dev:                            "use a smaller -s",
		"rc -d " + strings.Replace(dev, "roce", "iwarp", 1): "by the connection manager only",
		"rc -d roce_none":                                   "no device named roce_none; there are ",
		"srq -r 30000000 -d " + dev:                         "30000000",
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
