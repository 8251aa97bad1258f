// SPDX-License-Identifier: BSD-2-Clause

//go:build linux && interop

package interop

import (
	"fmt"
	"path/filepath"
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

// betweenListeners runs a server that does not say when it listens, and its client. The client must
// not begin before: of several identifiers some may be refused and others accepted, and the server
// would wait for those for ever.
func betweenListeners(t *testing.T, p pair, server, client string) {
	t.Helper()
	s := guest.Start(t, p.server, exchangeLimit, unmodified(p.server, server))
	listens := "rdma resource show cm_id | grep -q LISTEN"
	if isOurs(p.server) {
		listens = filepath.Join(programs, "verbena") + " stat --objects | grep -q listening"
	}
	guest.Run(t, p.server, exchangeLimit, "until "+listens+"; do sleep 0.02; done")
	guest.Start(t, p.client, exchangeLimit, unmodified(p.client, client)).Succeed()
	s.Succeed()
}
