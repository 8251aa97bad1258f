// SPDX-License-Identifier: BSD-2-Clause

//go:build linux && interop

package interop

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"testing"
	"time"

	"verbena/interop/capture"
	"verbena/interop/guest"
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if !guest.Inside() { // where the network is, should modules be missing
		if err := buildPrograms(); err != nil {
			fmt.Fprintln(os.Stderr, "interop:", err)
			return 1
		}
	}
	return guest.Main(m, guest.UML, guest.Debian)
}

// exchangeLimit bounds one program run. The longest takes some seconds; a
// guest has one CPU, and the machine may be busy.
const exchangeLimit = 30 * time.Second

// ethernetMTU gives RoCE the path MTU of 1024 that any Ethernet has.
const ethernetMTU = 1500

// pair is the two ends of an exchange.
type pair struct {
	server, client guest.Host
	ipv6           bool
}

// addr is the address to reach the server at.
func (p pair) addr() netip.Addr {
	if p.ipv6 {
		return p.server.IPv6()
	}
	return p.server.IPv4()
}

// wire is a LAN and the pairs of hosts that talk on it.
type wire struct {
	tapped *guest.Guest // takes part in every exchange: we capture at its tap
	pairs  []pair
}

// newWire boots a guest and pairs it with us, once as the client and once as
// the server.
func newWire(t *testing.T, kind guest.Kind) wire {
	t.Helper()
	lan := guest.NewLAN(t, ethernetMTU)
	g := lan.Boot(kind)[0]
	return wire{g, []pair{{server: lan.Local(), client: g}, {server: g, client: lan.Local()}}}
}

// betweenGuests has the tests of two guests run.
var betweenGuests = flag.Bool("between-guests", false, "run the exchanges between two guests, too")

// newPeersWire boots two guests, which take our part as well: failures between them are not our
// doing.
func newPeersWire(t *testing.T) wire {
	t.Helper()
	if !*betweenGuests {
		t.Skip("two guests test the kernel and this harness, not Verbena: go test -tags interop ./interop -between-guests, when in doubt about a guest")
	}
	guests := guest.NewLAN(t, ethernetMTU).Boot(guest.UML, guest.UML)
	return wire{guests[0], []pair{
		{server: guests[1], client: guests[0]},
		{server: guests[0], client: guests[1]},
	}}
}

// overIPv6 has the pairs talk over IPv6.
func (w wire) overIPv6() wire {
	for i := range w.pairs {
		w.pairs[i].ipv6 = true
	}
	return w
}

// exchange runs an exchange of every pair as a subtest and judges the packets on the wire.
func (w wire) exchange(t *testing.T, name string, exchange func(t *testing.T, p pair)) {
	t.Helper()
	for _, p := range w.pairs {
		t.Run(fmt.Sprintf("%s/%s_to_%s", name, p.client.Name(), p.server.Name()), func(t *testing.T) {
			w.captured(t, func() { exchange(t, p) })
		})
	}
}

// captured runs an exchange, judges the packets on the wire and returns them.
func (w wire) captured(t *testing.T, exchange func()) []capture.Packet {
	t.Helper()
	c := capture.Start(t, w.tapped.Tap())
	exchange()
	return capture.Judge(t, c.Stop(w.tapped.IPv4()))
}
