// SPDX-License-Identifier: BSD-2-Clause

//go:build linux && interop

package interop

import (
	"fmt"
	"testing"

	"verbena/interop/guest"
)

// qperfPort is the TCP port that qperf's two ends meet on.
const qperfPort = 19765

// TestQperf has qperf at both ends, ours over our libraries. Its server forks before it uses verbs.
// Its figures are not looked at.
func TestQperf(t *testing.T) {
	w := newWire(t, guest.UML)
	for _, test := range []string{"rc_lat", "rc_rdma_write_bw", "rc_rdma_read_bw", "ver_rc_fetch_add"} {
		w.exchange(t, test, func(t *testing.T, p pair) {
			server := guest.Start(t, p.server, exchangeLimit, unmodified(p.server, fmt.Sprintf("qperf -lp %d", qperfPort)))
			guest.Run(t, p.server, exchangeLimit, fmt.Sprintf("until ss -Hltn sport = :%d | grep -q .; do sleep 0.02; done", qperfPort))
			on := func(what string) string {
				return unmodified(p.client, fmt.Sprintf("qperf %v -lp %d -t 1 -cm 1 %s", p.server.IPv4(), qperfPort, what))
			}
			run := on(test)
			if _, isGuest := p.server.(*guest.Guest); isGuest {
				run = onceItListens(run) // the server names its port first; early clients try again
			}
			client := guest.Start(t, p.client, exchangeLimit, run)
			client.Succeed()
			client.Expect(`(bw|latency|msg_rate) +=`)
			guest.Start(t, p.client, exchangeLimit, on("quit")).Succeed()
			server.Succeed()
		})
	}
}
