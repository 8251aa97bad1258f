// SPDX-License-Identifier: BSD-2-Clause

//go:build linux && interop

package interop

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"verbena/interop/guest"
)

// TestMulticast has rdma-core's mckey send ten datagrams to a group. The other end is a member and
// wants five of them. Our end is the same program over our libraries.
func TestMulticast(t *testing.T) { testMulticast(t, newWire(t, guest.UML)) }

func TestMulticastBetweenGuests(t *testing.T) { testMulticast(t, newPeersWire(t)) }

func testMulticast(t *testing.T, w wire) {
	t.Helper()
	w.exchange(t, "IPv4", func(t *testing.T, p pair) {
		// A group for each receiver: a switch takes a while to forget a receiver that has left.
		group := fmt.Sprintf(" -m 239.77.7.%d", p.server.IPv4().As4()[3])
		receiver := guest.Start(t, p.server, exchangeLimit, mckey(p.server)+group+" -C 5") // of ten: a datagram may be lost
		receiver.Expect("receiving data transfers")
		// The first may come before the switch knows the member, also with stock programs.
		for try := 0; try < 5 && !strings.Contains(receiver.Output(), "data transfers complete"); try++ {
			guest.Start(t, p.client, exchangeLimit, mckey(p.client)+group+" -s").Succeed()
		}
		receiver.Succeed()
	})
}

// mckey is the command on a host: a guest has the system's libraries.
func mckey(host guest.Host) string {
	c := fmt.Sprintf("stdbuf -oL mckey -b %v", host.IPv4())
	if _, isGuest := host.(*guest.Guest); isGuest {
		return c
	}
	return "LD_LIBRARY_PATH=" + filepath.Join(programs, "lib") + " " + c
}
