// SPDX-License-Identifier: BSD-2-Clause

package stat

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"verbena/internal/stats"
	"verbena/internal/tools/cli"
	"verbena/internal/wire/pcap"
	"verbena/internal/wire/pcapread"
)

// The packets of a process go to a file that was not there, or to standard output.
func TestDump(t *testing.T) {
	run, err := os.MkdirTemp("", "vs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(run) })
	ring := pcap.NewRing(0, "test")
	if err := ring.Write(&pcap.Datagram{Time: time.Now(), Src: netip.MustParseAddrPort("10.0.0.1:1"), Dst: netip.MustParseAddrPort("10.0.0.2:4791")}, make([]byte, 40)); err != nil {
		t.Fatal(err)
	}
	s, err := stats.Serve(run, "77-1", func() stats.Snapshot { return stats.Snapshot{PID: 4711, Ring: ring.Bytes()} }, ring.Hold)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	t.Chdir(t.TempDir())
	if err := os.WriteFile("verbena-4711.pcapng", []byte("theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
	packets := func(r *pcapread.Reader) (n int) {
		for {
			if _, err := r.Next(); err != nil {
				return n
			}
			n++
		}
	}
	for _, c := range []struct{ output, file string }{{"", "verbena-4711-2.pcapng"}, {"", "verbena-4711-3.pcapng"}, {"own", "own"}} {
		var out bytes.Buffer
		if err := dump(t.Context(), &out, run, 4711, c.output); err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("%s: 1 packets of ", c.file); !strings.HasPrefix(out.String(), want) {
			t.Errorf("%q, want %q", &out, want)
		}
		r, err := pcapread.Open(c.file)
		if err != nil {
			t.Fatal(err)
		}
		if n := packets(r); n != 1 {
			t.Errorf("%s has %d packets", c.file, n)
		}
		r.Close()
	}
	var out bytes.Buffer
	if err := dump(t.Context(), &out, run, 4711, "-"); err != nil {
		t.Fatal(err)
	}
	if r, err := pcapread.NewReader(&out); err != nil || packets(r) != 1 {
		t.Errorf("standard output: %v", err)
	}
	if err := dump(t.Context(), &out, run, 4711, "own"); err == nil || !strings.Contains(err.Error(), "--output own: the file is there already") {
		t.Errorf("%v", err)
	}
	if err := dump(t.Context(), &out, run, 4711, filepath.Join("none", "x")); err == nil {
		t.Error("a file in no directory")
	}
	if b, err := os.ReadFile("verbena-4711.pcapng"); err != nil || string(b) != "theirs" {
		t.Errorf("%q, %v", b, err)
	}
}

// A process that ends in the middle is an error, and leaves neither a file nor a part of one.
func TestDumpCutShort(t *testing.T) {
	run, err := os.MkdirTemp("", "vs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(run) })
	l, err := net.Listen("unix", filepath.Join(run, "77-1.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			io.WriteString(c, `{"pid":9,"pcap_ring_bytes":1}`+"\n")
			if _, err := io.ReadFull(c, make([]byte, len("packets\n"))); err == nil {
				io.WriteString(c, `{"packets":2,"bytes":100}`+"\nshort")
			}
			c.Close()
		}
	}()
	t.Chdir(t.TempDir())
	for _, output := range []string{"-", "", "own"} {
		var out bytes.Buffer
		if err := dump(t.Context(), &out, run, 9, output); err == nil || !strings.Contains(err.Error(), "95 bytes are missing") || out.Len() > 0 {
			t.Errorf("%q: %v, and prints %q", output, err, &out)
		}
	}
	if left, _ := filepath.Glob("*"); len(left) > 0 {
		t.Errorf("%q", left)
	}
}

// Shells complete the process ids: for dump those of processes with a ring.
func TestCompletePIDs(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", dir)
	served := cli.RuntimeDir()
	for i, s := range []stats.Snapshot{{PID: 4711, Command: "server", Ring: 1 << 20, Devices: []stats.Device{}}, {PID: 4712, Command: "client", Devices: []stats.Device{}}} {
		server, err := stats.Serve(served, fmt.Sprintf("77-%d", i), func() stats.Snapshot { return s }, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
	}
	for _, c := range []struct{ args, want string }{
		{"dump|", "4711\tserver\n:4\n"},
		{"dump|4711|", ":4\n"},
		{"--pid|", "4711\tserver\n4712\tclient\n:4\n"},
	} {
		root := &cobra.Command{Use: "verbena"}
		root.AddCommand(Command())
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetErr(io.Discard)
		root.SetArgs(append([]string{"__complete", "stat"}, strings.Split(c.args, "|")...))
		if err := root.ExecuteContext(t.Context()); err != nil || out.String() != c.want {
			t.Errorf("%s: %v, %q, want %q", c.args, err, &out, c.want)
		}
	}
}
