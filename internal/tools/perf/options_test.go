// SPDX-License-Identifier: BSD-2-Clause

package perf

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"verbena/internal/tools/cli"
)

func parse(t *testing.T, op, metric, line string) (*options, error) {
	t.Helper()
	o := &options{test: test{op: op, metric: metric}}
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.flags(fs)
	if err := fs.Parse(strings.Fields(line)); err != nil {
		return o, err
	}
	return o, o.complete()
}

func TestOptionsAreThoseOfPerftest(t *testing.T) {
	o, err := parse(t, "write", "bw", "-s 4096 -n 10 -q 4 -t 64 -I 32 -m 1024 -b -e -p 18516 -d roce_lo -x 1 -R --report_gbits --json")
	if err != nil {
		t.Fatal(err)
	}
	h := o.hello()
	if h.MaxSize != 4096 || h.QPs != 4 || h.Depth != 64 || h.Inline != 32 || h.MTU != 1024 || !h.Bidirectional || !h.Events || !h.RDMACM {
		t.Errorf("hello %+v", h)
	}
	if o.iterations(4096) != 10 || o.port != 18516 || o.dev.Name != "roce_lo" || o.gidIndex != 1 || !o.gbits || o.format() != formatJSON {
		t.Errorf("options %+v", o)
	}
}

func TestDefaults(t *testing.T) {
	for _, c := range []struct {
		op, metric, line string
		sizes            int
		size             int
		iters            int64
	}{
		{"write", "bw", "", 1, 65536, 5000},
		{"write", "lat", "", 1, 2, 1000},
		{"atomic", "bw", "", 1, 8, 5000},
		{"send", "bw", "-a", 23, 8 << 20, 128},
		{"read", "bw", "-s 1048576", 1, 1 << 20, 1024},
		{"read", "bw", "-s 8388608 -n 7", 1, 8 << 20, 7},
		{"read", "lat", "-D 3", 1, 2, 0},
		{"write", "bw", "-q 4000", 1, 65536, 128},
		{"send", "bw", "-c UC", 1, 65536, 5000},
		{"send", "bw", "-c UD", 1, 4096, 5000},
		{"send", "bw", "-c UD -m 512", 1, 512, 5000},
		{"send", "bw", "-c UD -a -m 1024", 10, 1024, 5000},
		{"send", "lat", "-c ud -s 4096", 1, 4096, 1000},
	} {
		o, err := parse(t, c.op, c.metric, c.line)
		if err != nil {
			t.Errorf("%s %s %s: %v", c.op, c.metric, c.line, err)
			continue
		}
		sizes := o.sizes()
		if len(sizes) != c.sizes || sizes[len(sizes)-1] != c.size || o.iterations(c.size) != c.iters {
			t.Errorf("%s %s %s: sizes %v, iterations %d", c.op, c.metric, c.line, sizes, o.iterations(c.size))
		}
		if o.gidIndex != cli.AnyGID {
			t.Errorf("GID index %d", o.gidIndex)
		}
	}
}

func TestServerAdoptsTheClientsWishes(t *testing.T) {
	client, err := parse(t, "send", "bw", "-c UD -s 100 -q 3 -t 7 -b -e -D 2")
	if err != nil {
		t.Fatal(err)
	}
	server, err := parse(t, "send", "bw", "")
	if err != nil {
		t.Fatal(err)
	}
	server.adopt(client.hello())
	if got, want := *server.hello(), *client.hello(); got != want || server.duration != 2*time.Second {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestWrongOptionsAreNamed(t *testing.T) {
	for _, c := range []struct{ op, metric, line, want string }{
		{"write", "bw", "-s 0", "--size 0"},
		{"write", "bw", "-n -1", "--iters -1"},
		{"write", "bw", "-D -1", "--duration -1"},
		{"write", "bw", "-n 5 -D 1", "exclude each other"},
		{"write", "bw", "-q 0", "--qp 0"},
		{"write", "bw", "-t 0", "--tx-depth 0"},
		{"write", "bw", "-I 9999", "--inline_size 9999"},
		{"write", "bw", "-m 1500", "path MTU 1500"},
		{"write", "bw", "-p 0", "--port 0"},
		{"write", "bw", "-i 0", "--ib-port 0"},
		{"write", "bw", "-x 300", "--gid-index 300"},
		{"send", "lat", "-Q 99", "--cq-mod 99"},
		{"write", "bw", "--json --csv", "exclude each other"},
		{"write", "bw", "--plot f.svg", "add --all"},
		{"write", "bw", "-a -q 4096", "MiB of memory"},
		{"write", "lat", "-e", "makes no completion"},
		{"write", "bw", "-c DC", `"DC" is not RC, UC or UD`},
		{"write", "bw", "-c UD", "UD has no RDMA WRITE"},
		{"read", "lat", "-c UC", "UC has no RDMA READ"},
		{"atomic", "bw", "-c UD", "UD has no atomic"},
		{"send", "bw", "-c UD -s 4097", "carries 4096 bytes"},
		{"send", "lat", "-c UD -s 1025 -m 1024", "carries 1024 bytes"},
		{"write", "lat", "-b", "unknown shorthand"},
		{"atomic", "bw", "-s 8", "unknown shorthand"},
	} {
		_, err := parse(t, c.op, c.metric, c.line)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s %s: error %v, want %q in it", c.op, c.metric, c.line, err, c.want)
		}
	}
}

// The default size of a datagram is cut to the port's limit. A chosen size beyond it is refused.
func TestDatagramsFitThePort(t *testing.T) {
	client, err := parse(t, "send", "bw", "-c UD")
	if err != nil {
		t.Fatal(err)
	}
	server, err := parse(t, "send", "bw", "")
	if err != nil {
		t.Fatal(err)
	}
	server.adopt(client.hello())
	if err := server.bound(1024, "a datagram on roce_eth0"); err == nil || !strings.Contains(err.Error(), "roce_eth0 carries 1024 bytes") {
		t.Errorf("the server takes datagrams of %d bytes: %v", server.size, err)
	}
	if err := client.bound(1024, "a datagram on roce_eth0"); err != nil || client.size != 1024 {
		t.Errorf("the client sends %d bytes, %v", client.size, err)
	}
	e := endpoint{o: client, largest: 1024}
	if err := e.checkPeer(&Offer{MTU: 512}); err == nil || !strings.Contains(err.Error(), "use -m 512") {
		t.Errorf("a peer whose port carries less: %v", err)
	}
}
