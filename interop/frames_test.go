// SPDX-License-Identifier: BSD-2-Clause

//go:build linux && interop

package interop

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"verbena/interop/guest"
)

// TestFrames has our end send and receive past the kernel's IP stack (AF_XDP): at the bridge, where
// the kernel runs the XDP program (generic XDP), and at the guest's tap, whose driver does.
func TestFrames(t *testing.T) {
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil || os.Getuid() != 0 {
		t.Skipf("needs root and a kernel with AF_XDP: user %d, socket: %v", os.Getuid(), err)
	}
	unix.Close(fd)
	lan := guest.NewLAN(t, ethernetMTU)
	g := lan.Boot(guest.UML)[0]
	t.Run("bridge", func(t *testing.T) {
		byFrames(t, g, lan.Local(), func(t *testing.T, exchange func()) { wire{tapped: g}.captured(t, exchange) })
	})
	// A capture at the tap itself does not see frames of AF_XDP.
	t.Run("tap", func(t *testing.T) {
		byFrames(t, g, lan.Direct(g), func(_ *testing.T, exchange func()) { exchange() })
	})
}

// maxBySockets bounds the datagrams of an exchange that go by sockets: those of the connection
// manager, and one to a neighbour that the kernel is to check. Without frames there are 285 to
// 6,038.
const maxBySockets = 50

func byFrames(t *testing.T, g *guest.Guest, local guest.Local, within func(t *testing.T, exchange func())) {
	local.Privileged = true
	local.Environment = []string{"VERBENA_XDP=" + local.Interface, "XDG_RUNTIME_DIR=" + t.TempDir()}
	for _, p := range []pair{{server: local, client: g}, {server: g, client: local}} {
		for _, c := range []struct {
			name string
			run  func(t *testing.T)
		}{
			{"rc_pingpong", func(t *testing.T) { pingpongs(t, p, "ibv_rc_pingpong", unmodified, guest.Host.IPv4, "-m 1024") }},
			{"write_bw", func(t *testing.T) { perftest(t, p, "ib_write_bw -s 16384 -n 100 -t 32") }},
			{"read_bw", func(t *testing.T) { perftest(t, p, "ib_read_bw -s 16384 -n 100 -t 32") }},
			{"rping", func(t *testing.T) { rpings(t, p, unmodified, p.addr(), 100) }},
		} {
			t.Run(fmt.Sprintf("%s/%s_to_%s", c.name, p.client.Name(), p.server.Name()), func(t *testing.T) {
				before := socketDatagrams(t)
				within(t, func() { c.run(t) })
				n := socketDatagrams(t) - before
				t.Logf("%d datagrams went by sockets", n)
				if n > maxBySockets {
					t.Errorf("%d datagrams went by sockets: all but a few were to go by frames", n)
				}
			})
		}
	}
}

// socketDatagrams returns the number of datagrams that UDP sockets over IPv4 sent and received.
func socketDatagrams(t *testing.T) (n int) {
	t.Helper()
	text, err := os.ReadFile("/proc/net/snmp")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		switch {
		case fields[0] != "Udp:":
		case names == nil:
			names = fields
		default:
			for i, name := range names {
				if name == "InDatagrams" || name == "OutDatagrams" {
					v, err := strconv.Atoi(fields[i])
					if err != nil {
						t.Fatal(err)
					}
					n += v
				}
			}
		}
	}
	return n
}
