// SPDX-License-Identifier: BSD-2-Clause

//go:build linux && interop

package interop

import (
	"fmt"
	"testing"

	"verbena/interop/guest"
)

// TestUdaddy has rdma-core's udaddy resolve each other by SIDR and exchange
// datagrams. Our end is the same program over our libraries. Our end asks the
// kernel whether it has sent each request, and the kernel answers.
func TestUdaddy(t *testing.T) {
	newWire(t, guest.UML).exchange(t, "IPv4", func(t *testing.T, p pair) {
		betweenListeners(t, p, fmt.Sprintf("udaddy -c 8 -b %v", p.addr()), fmt.Sprintf("udaddy -c 8 -s %v", p.addr()))
	})
}

// TestRdmaClient has rdma-core's rdma_client and rdma_server connect and send a
// message each way, with endpoints made by rdma_create_ep(3).
func TestRdmaClient(t *testing.T) {
	newWire(t, guest.UML).exchange(t, "IPv4", func(t *testing.T, p pair) {
		betweenListeners(t, p, fmt.Sprintf("rdma_server -s %v", p.addr()), fmt.Sprintf("rdma_client -s %v", p.addr()))
	})
}

// betweenListeners runs a server that does not say when it listens, and its
// client.
func betweenListeners(t *testing.T, p pair, server, client string) {
	t.Helper()
	s := guest.Start(t, p.server, exchangeLimit, unmodified(p.server, server))
	if isOurs(p.server) { // there is no one to refuse before the port is open
		guest.Run(t, p.server, exchangeLimit, "until ss -Hlun sport = :4791 | grep -q .; do sleep 0.02; done")
	}
	guest.Start(t, p.client, exchangeLimit, onceItListens(unmodified(p.client, client))).Succeed()
	s.Succeed()
}
