// SPDX-License-Identifier: BSD-2-Clause

package perf

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"verbena/internal/testkit/loopback"
)

// both runs a server and a client with the options in line and returns the errors and the client's
// output.
func both(t *testing.T, server, client test, line string) (out string, serverErr, clientErr error) {
	t.Helper()
	return bothWith(t, server, client, "", line)
}

// bothWith gives the server options, too.
func bothWith(t *testing.T, server, client test, serverLine, line string) (out string, serverErr, clientErr error) {
	t.Helper()
	return bothOn(t, loopback.Device(t), server, client, serverLine, line)
}

// bothOn has both sides use a device.
func bothOn(t *testing.T, dev string, server, client test, serverLine, line string) (out string, serverErr, clientErr error) {
	t.Helper()
	return bothTo(t, io.Discard, dev, server, client, serverLine, line)
}

// bothTo has the client's standard error go to errOut.
func bothTo(t *testing.T, errOut io.Writer, dev string, server, client test, serverLine, line string) (out string, serverErr, clientErr error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	s, err := parse(t, server.op, server.metric, serverLine+" -d "+dev)
	if err != nil {
		t.Fatal(err)
	}
	c, err := parse(t, client.op, client.metric, "-d "+dev+" --json "+line)
	if err != nil {
		t.Fatal(err)
	}
	s.port = 0
	port := make(chan int, 1)
	s.listening = func(a net.Addr) {
		s.port = a.(*net.TCPAddr).Port // the connection manager listens on the same number
		port <- s.port
	}
	done := make(chan error, 1)
	var serverOut, clientOut bytes.Buffer
	for started := false; !started; {
		go func() { done <- runServer(ctx, s, &serverOut, &serverOut) }()
		select {
		case c.port = <-port:
			started = true
		case err := <-done:
			// Faults are the process's. The connection manager of a test before may not be
			// done yet: its peer's last answer is on its way.
			if !errors.Is(err, syscall.EBUSY) || ctx.Err() != nil {
				t.Fatalf("server: %v", err)
			}
			runtime.Gosched()
		}
	}
	c.host = "127.0.0.1"
	clientErr = runClient(ctx, c, &clientOut, errOut)
	if clientErr != nil {
		cancel()
	}
	return clientOut.String(), <-done, clientErr
}

func TestEveryMeasureOverLoopback(t *testing.T) {
	for _, c := range []struct {
		op, metric, line string
		results          int
	}{
		{"write", "bw", "-s 4096 -n 100", 1},
		{"write", "bw", "-s 8 -n 333 -t 64 -I 16 -q 3", 1},
		{"write", "bw", "-s 65536 -n 50 -b", 1},
		{"write", "bw", "-s 4096 -n 50 -q 2 -R", 1},
		{"write", "bw", "-s 1024 -n 200 -t 1 -m 256", 1},
		{"read", "bw", "-s 20000 -n 50 -q 2", 1},
		{"send", "bw", "-s 4096 -n 300", 1},
		{"send", "bw", "-s 100 -n 300 -b -e -q 2", 1},
		{"atomic", "bw", "-n 100", 1},
		{"write", "lat", "-s 2 -n 50", 1},
		{"read", "lat", "-s 2 -n 50 -e", 1},
		{"send", "lat", "-s 2 -n 50 -R", 1},
		{"send", "lat", "-s 2 -n 50 -e", 1},
		{"send", "lat", "-s 2 -n 50 -Q 1", 1},
		{"atomic", "lat", "-n 50", 1},
		{"send", "bw", "-a -n 2 -t 2", 23},
		{"write", "lat", "-a -n 1", 23},
		{"write", "bw", "-c UC -s 4096 -n 300 -q 2", 1},
		{"write", "bw", "-c uc -s 4096 -n 100 -b -R", 1},
		{"write", "lat", "-c UC -s 2 -n 50", 1},
		{"send", "bw", "-c UC -s 4096 -n 300 -b -q 2", 1},
		{"send", "bw", "-c UC -s 10000 -n 50 -m 1024 -e", 1},
		{"send", "lat", "-c UC -s 2 -n 50 -R", 1},
		{"send", "bw", "-c UD -n 300", 1},
		{"send", "bw", "-c UD -s 4096 -n 300 -b -q 3 -e", 1},
		{"send", "bw", "-c UD -s 1024 -n 300 -b -q 3 -R", 1},
		{"send", "bw", "-c UD -a -n 20 -t 4", 12},
		{"send", "bw", "-c UD -a -n 20 -m 1024", 10},
		{"send", "lat", "-c UD -s 2 -n 50", 1},
		{"send", "lat", "-c UD -s 4096 -n 50 -e", 1},
		{"send", "lat", "-c UD -a -n 10 -R", 12},
	} {
		name := strings.Join([]string{c.op, c.metric, c.line}, " ")
		t.Run(name, func(t *testing.T) {
			test := test{op: c.op, metric: c.metric}
			out, serverErr, clientErr := both(t, test, test, c.line)
			if serverErr != nil || clientErr != nil {
				t.Fatalf("server: %v; client: %v", serverErr, clientErr)
			}
			var report struct {
				Test    string
				Results []struct {
					Bytes      int
					Iterations int64
					BWAverage  float64 `json:"bw_average"`
					Min        float64 `json:"t_min_usec"`
				}
			}
			if err := json.Unmarshal([]byte(out), &report); err != nil {
				t.Fatalf("%v in\n%s", err, out)
			}
			if report.Test != c.op+" "+c.metric || len(report.Results) != c.results {
				t.Fatalf("report\n%s", out)
			}
			for _, r := range report.Results {
				if r.Iterations == 0 || (r.BWAverage > 0) == (r.Min > 0) {
					t.Errorf("result %+v", r)
				}
			}
		})
	}
}

func TestMessagesOfBothDirectionsAreCounted(t *testing.T) {
	test := test{op: "send", metric: "bw"}
	out, serverErr, clientErr := both(t, test, test, "-s 64 -n 100 -b -q 2")
	if serverErr != nil || clientErr != nil || !strings.Contains(out, `"iterations": 400,`) {
		t.Errorf("server: %v; client: %v\n%s", serverErr, clientErr, out)
	}
}

func TestDifferentTestsDoNotMeet(t *testing.T) {
	_, serverErr, clientErr := both(t, test{op: "write", metric: "bw"}, test{op: "send", metric: "lat"}, "-n 1")
	for side, err := range map[string]error{"server": serverErr, "client": clientErr} {
		if err == nil || !strings.Contains(err.Error(), "run the same on both sides") {
			t.Errorf("%s: %v", side, err)
		}
	}
}

// TestLossIsCounted measures services that lose messages while the wire does: every test ends, and
// reports the losses.
func TestLossIsCounted(t *testing.T) {
	const lossy = "--faults loss=2%,dup=1%,seed=7"
	for _, c := range []struct{ op, metric, line string }{
		{"send", "bw", "-c UD -s 1024 -n 2000 -t 16"},
		{"send", "bw", "-c UD -s 1024 -n 1000 -t 16 -b -e"},
		{"send", "bw", "-c UC -s 8192 -m 1024 -n 500 -t 16 -q 2"},
		{"send", "lat", "-c UD -n 200"},
		{"send", "lat", "-c UC -n 200 -e"},
		{"write", "lat", "-c UC -n 200"},
		{"write", "bw", "-c UC -n 300"},
	} {
		t.Run(strings.Join([]string{c.op, c.metric, c.line}, " "), func(t *testing.T) {
			test := test{op: c.op, metric: c.metric}
			out, serverErr, clientErr := bothWith(t, test, test, lossy, c.line)
			if serverErr != nil || clientErr != nil {
				t.Fatalf("server: %v; client: %v", serverErr, clientErr)
			}
			var report struct {
				Results []struct {
					Iterations int64
					Arrived    *int64 `json:"messages_arrived"`
					Lost       int64
				}
			}
			if err := json.Unmarshal([]byte(out), &report); err != nil || len(report.Results) != 1 {
				t.Fatalf("%v in\n%s", err, out)
			}
			r := report.Results[0]
			switch {
			case c.metric == "lat" && (r.Lost == 0 || r.Lost+r.Iterations != 200):
				t.Errorf("%d round trips and %d without an answer", r.Iterations, r.Lost)
			case c.metric == "bw" && c.op == "send" && (r.Arrived == nil || *r.Arrived == 0 || *r.Arrived >= r.Iterations):
				t.Errorf("of %d messages there arrived %v", r.Iterations, r.Arrived)
			case c.op == "write" && r.Arrived != nil:
				t.Errorf("of WRITEs nobody knows whether they arrive: %v", *r.Arrived)
			}
		})
	}
}

// A peer that answers nothing at all ends a latency test with an error.
func TestSilenceEndsALatencyTest(t *testing.T) {
	test := test{op: "send", metric: "lat"}
	_, _, err := bothWith(t, test, test, "--faults loss=100%", "-c UD -n 1000")
	if err == nil || !strings.Contains(err.Error(), "no answer") || !strings.Contains(err.Error(), "4791") {
		t.Errorf("client: %v", err)
	}
}

// --plot draws all sizes. A server does not draw, and a file that cannot be is found out at once.
func TestPlot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "plot.svg")
	for _, c := range []struct{ metric, want string }{{"bw", ">best 10 ms<"}, {"lat", ">typical<"}} {
		out, serverErr, clientErr := both(t, test{"send", c.metric}, test{"send", c.metric}, "-c UD -a -m 1024 -n 20 --plot "+file)
		if serverErr != nil || clientErr != nil {
			t.Fatalf("server %v, client %v", serverErr, clientErr)
		}
		svg, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{c.want, ">8<", ">1 Ki<", "path MTU 1024", "UD", "cores", "prefers-color-scheme:dark"} {
			if !strings.Contains(string(svg), want) {
				t.Errorf("%s: the plot has no %q", c.metric, want)
			}
		}
		if points := strings.Count(string(svg), "<circle"); points != 2*strings.Count(out, `"bytes"`) {
			t.Errorf("%s: %d points of\n%s", c.metric, points, out)
		}
	}
	for _, left := range []string{"", "a former one"} { // by a run that fails
		file := filepath.Join(t.TempDir(), "plot.svg")
		if left != "" {
			if err := os.WriteFile(file, []byte(left), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		o := options{plot: file}
		f, err := o.plotFile()
		if err != nil {
			t.Fatal(err)
		}
		closePlot(f)
		if b, err := os.ReadFile(file); string(b) != left || (left == "") != os.IsNotExist(err) {
			t.Errorf("after a run that failed: %q, %v; want %q", b, err, left)
		}
	}
	o, err := parse(t, "send", "bw", "-a --plot "+filepath.Join(file, "below"))
	if err != nil {
		t.Fatal(err)
	}
	if err := runServer(t.Context(), o, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "--plot") {
		t.Errorf("a server: %v", err)
	}
	if _, err := o.plotFile(); err == nil || !strings.Contains(err.Error(), "--plot") {
		t.Errorf("a file below a file: %v", err)
	}
}
