// SPDX-License-Identifier: BSD-2-Clause

//go:build linux && interop

package interop

import (
	"fmt"
	"net/netip"
	"testing"

	"verbena/interop/guest"
)

// TestRping has rping verify the data of 1,000 iterations over either family. Each is a SEND, a
// READ, a SEND, a SEND, a WRITE and a SEND.
func TestRping(t *testing.T) {
	w := newWire(t, guest.UML)
	w.exchange(t, "IPv4", func(t *testing.T, p pair) { rping(t, p, p.server.IPv4(), 1000) })
	w.exchange(t, "IPv6", func(t *testing.T, p pair) { rping(t, p, p.server.IPv6(), 1000) })
}

// TestRpingWithDebianKernel has the other kernel take part.
func TestRpingWithDebianKernel(t *testing.T) {
	w := newWire(t, guest.Debian)
	w.exchange(t, "IPv4", func(t *testing.T, p pair) { rping(t, p, p.server.IPv4(), 1000) })
	w.exchange(t, "IPv6", func(t *testing.T, p pair) { rping(t, p, p.server.IPv6(), 100) })
}

func TestRpingBetweenGuests(t *testing.T) {
	w := newPeersWire(t)
	w.exchange(t, "IPv4", func(t *testing.T, p pair) { rping(t, p, p.server.IPv4(), 1000) })
	w.exchange(t, "IPv6", func(t *testing.T, p pair) { rping(t, p, p.server.IPv6(), 1000) })
}

// TestUnmodifiedRping has rdma-core's rping at both ends, ours over our libraries.
func TestUnmodifiedRping(t *testing.T) {
	w := newWire(t, guest.UML)
	w.exchange(t, "IPv4", func(t *testing.T, p pair) { rpings(t, p, unmodified, p.server.IPv4(), 200) })
	w.exchange(t, "IPv6", func(t *testing.T, p pair) { rpings(t, p, unmodified, p.server.IPv6(), 200) })
}

func rping(t *testing.T, p pair, addr netip.Addr, iterations int) {
	t.Helper()
	rpings(t, p, func(h guest.Host, name string) string { return rdmaTool(h, name, name) }, addr, iterations)
}

// rpings runs the commands that tool makes of rping at both ends.
func rpings(t *testing.T, p pair, tool func(guest.Host, string) string, addr netip.Addr, iterations int) {
	t.Helper()
	options := fmt.Sprintf(" -a %s -C %d -V -v", addr, iterations)
	// -d says when the server listens, or, rdma-core's, that it is about to.
	server := guest.Start(t, p.server, exchangeLimit, tool(p.server, "rping")+" -s -d"+options)
	server.Expect("rdma_listen")
	if _, ok := p.server.(*guest.Guest); ok {
		guest.Start(t, p.server, exchangeLimit, "until rdma resource show cm_id | grep -q LISTEN; do sleep 0.02; done").Succeed()
	}
	client := guest.Start(t, p.client, exchangeLimit, tool(p.client, "rping")+" -c"+options)
	client.Succeed()
	server.Succeed()
}
