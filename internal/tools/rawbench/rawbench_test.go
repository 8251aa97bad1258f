// SPDX-License-Identifier: BSD-2-Clause

package rawbench

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"testing"

	"verbena/internal/monotime"
)

var lo = netip.MustParseAddr("127.0.0.1")

// server is a role that runs in a child process in benchmarks.
type server interface {
	Addr() netip.AddrPort
	Run() error
	Close() error
}

func open(role string) (server, error) {
	if role == "stream" {
		return NewStreamServer(lo)
	}
	return NewPingServer(lo)
}

func TestMain(m *testing.M) {
	if role := os.Getenv("VERBENA_RAWBENCH_SERVER"); role != "" {
		s, err := open(role)
		if err == nil {
			fmt.Println(s.Addr())
			err = s.Run()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// serve runs a server in this process and returns how to wait for its end.
func serve(t *testing.T, role string) (netip.AddrPort, func()) {
	t.Helper()
	s, err := open(role)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run() }()
	return s.Addr(), func() {
		t.Helper()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		s.Close()
	}
}

func TestStream(t *testing.T) {
	to, wait := serve(t, "stream")
	r, err := RunStream(lo, to, Stream{DatagramBytes: 4096, Duration: 20 * monotime.Millisecond})
	if err != nil || r.Bytes == 0 || r.Datagrams*4096 != r.Bytes || r.BytesPerSecond() <= 0 {
		t.Errorf("%+v, %v", r, err)
	}
	wait()
	if _, err := RunStream(lo, to, Stream{DatagramBytes: 1}); err == nil {
		t.Error("datagrams too short for their header are not refused")
	}
}

func TestPing(t *testing.T) {
	to, wait := serve(t, "ping")
	r, err := RunPing(lo, to, 64, 200)
	if err != nil || len(r.OneWay) != 200 || r.Percentile(50) <= 0 || r.Percentile(50) > r.Percentile(100) {
		t.Errorf("%d pings, %v", len(r.OneWay), err)
	}
	wait()
	if _, err := RunPing(lo, to, 0, 1); err == nil {
		t.Error("empty pings are not refused")
	}
}

// child starts a server in a process of its own.
func child(b *testing.B, role string) netip.AddrPort {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "VERBENA_RAWBENCH_SERVER="+role)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { cmd.Wait() })
	var addr string
	if _, err := fmt.Fscan(out, &addr); err != nil {
		b.Fatal(err)
	}
	return netip.MustParseAddrPort(addr)
}

// BenchmarkStream is the socket's rate between two processes.
func BenchmarkStream(b *testing.B) {
	for _, size := range []int{1024, 4096} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			for range b.N {
				r, err := RunStream(lo, child(b, "stream"), Stream{DatagramBytes: size, Duration: 300 * monotime.Millisecond})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(r.BytesPerSecond()/1e9, "GB/s")
				b.ReportMetric(float64(r.Lost), "lost")
			}
		})
	}
}

// BenchmarkPing is the socket's one-way latency between two processes.
func BenchmarkPing(b *testing.B) {
	r, err := RunPing(lo, child(b, "ping"), 64, max(b.N, 1))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(r.Percentile(50).Nanoseconds()), "ns-p50")
	b.ReportMetric(float64(r.Percentile(99).Nanoseconds()), "ns-p99")
}
