// SPDX-License-Identifier: BSD-2-Clause

//go:build linux && interop

package interop

import (
	"fmt"
	"strings"
	"testing"

	"verbena/interop/guest"
)

// TestPerftest has perftest's programs move data between rdma-core's libraries and ours, each way.
// They are connected by an exchange of their own over TCP or by the connection manager. Few
// messages show whether it works; the measurements are not looked at.
func TestPerftest(t *testing.T) {
	w := newWire(t, guest.UML)
	for _, c := range []struct{ name, command string }{
		{"write_bw", "ib_write_bw -s 16384 -n 100 -t 32"},
		{"write_bw_bidirectional", "ib_write_bw -b -s 16384 -n 100 -t 32"},
		{"write_bw_cm", "ib_write_bw -R -s 16384 -n 100 -t 32"},
		{"read_bw", "ib_read_bw -s 16384 -n 100 -t 32"},
		{"send_bw_events", "ib_send_bw -e -s 16384 -n 100 -t 32"},
		{"send_lat", "ib_send_lat -s 1000 -n 100"},
		{"send_lat_ud", "ib_send_lat -c UD -s 1000 -n 100"},
		{"atomic_lat", "ib_atomic_lat -n 100"},
	} {
		w.exchange(t, c.name, func(t *testing.T, p pair) { perftest(t, p, c.command) })
	}
}

// notAgain matches perftest's message, before a SIGBUS of its own, when the second of its two
// connections with -R finds no listener. Its server listens for the second only when the first is
// there, and the client does not wait for that.
const notAgain = "RDMA_CM_EVENT_REJECTED; error: 8"

// maxEarly bounds the exchanges in which the client was faster than the kernel's
// server. Ours lets a request wait for a program that is about to listen.
const maxEarly = 5

func perftest(t *testing.T, p pair, command string) {
	t.Helper()
	// -F: a guest's processor does not tell its frequency.
	on := func(h guest.Host) string {
		return unmodified(h, fmt.Sprintf("%s -F -d %s -x %d", command, rdmaDevice(h), gidIndex(t, h, h.IPv4())))
	}
	program, _, _ := strings.Cut(command, " ")
	for early := 0; ; early++ {
		server := guest.Start(t, p.server, exchangeLimit, on(p.server))
		server.Expect("Waiting for client")
		client := guest.Start(t, p.client, exchangeLimit, onceItListens(on(p.client)+" "+p.server.IPv4().String()))
		_, isGuest := p.server.(*guest.Guest)
		if status, said := client.Wait(); isGuest && early < maxEarly && status != 0 && strings.Contains(said, notAgain) {
			t.Log("the kernel's server did not listen for the second connection yet: again")
			guest.Run(t, p.server, exchangeLimit, "pkill -x "+program+" || true")
			server.Wait()
			continue
		}
		client.Succeed()
		client.Expect(`#bytes +#iterations`)
		server.Succeed()
		return
	}
}
