// SPDX-License-Identifier: BSD-2-Clause

//go:build linux && interop

package interop

import (
	"fmt"
	"strings"
	"testing"

	"verbena/interop/guest"
)

// overIWARP is unmodified for a program whose user asks for devices of iWARP.
func overIWARP(host guest.Host, program string) string {
	if _, isGuest := host.(*guest.Guest); isGuest {
		return unmodified(host, program)
	}
	return "VERBENA_DEVICES=iwarp " + unmodified(host, program)
}

// untilItListens waits for a server of a port: in a guest rdma_cm has it, on our
// side it is a TCP port.
func untilItListens(host guest.Host, port int) string {
	if _, isGuest := host.(*guest.Guest); isGuest {
		return "until rdma resource show cm_id | grep -q LISTEN; do sleep 0.02; done"
	}
	return fmt.Sprintf("until ss -Hltn 'sport = :%d' | grep -q LISTEN; do sleep 0.02; done", port)
}

// refusedAgain matches perftest's message when the second of its two connections with -R finds no
// listener: see notAgain. TCP refuses at once.
const refusedAgain = "ERRNO: Connection refused"

// TestSIWApplications has Debian's programs connect and move data between
// rdma-core's libraries over siw and ours over TCP, each way. In all of them the
// client speaks first, as MPA wants it of an initiator.
func TestSIWApplications(t *testing.T) {
	w := newSIWWire(t)
	for _, c := range []struct {
		name, program  string
		server, client string // options; of both %v is the server's address
		port           int
	}{
		{"rping", "rping -C 200 -V -p 7300", "-s -a %v", "-c -a %v", 7300},
		{"rdma_client", "", "rdma_server -s %v -p 7302", "rdma_client -s %v -p 7302", 7302},
		{"write_bw", "ib_write_bw -R -F -s 16384 -n 100 -t 32 -p 7303", "", "%v", 7303},
		{"read_bw", "ib_read_bw -R -F -s 16384 -n 100 -t 32 -p 7304", "", "%v", 7304},
		{"send_bw", "ib_send_bw -R -F -s 16384 -n 100 -t 32 -p 7305", "", "%v", 7305},
		{"send_lat", "ib_send_lat -R -F -s 100 -n 100 -p 7306", "", "%v", 7306},
		{"rstream", "rstream -C 50 -S 10000 -T b -T v -p 7307", "-b %v", "-s %v", 7307},
	} {
		w.each(t, c.name, func(t *testing.T, p pair) {
			w.streams(t, func() {
				on := func(h guest.Host, options string) string {
					if options != "" {
						options = fmt.Sprintf(" "+options, p.addr())
					}
					return overIWARP(h, c.program+options)
				}
				var server *guest.Command
				for early := 0; ; early++ {
					server = guest.Start(t, p.server, exchangeLimit, on(p.server, c.server))
					guest.Start(t, p.server, exchangeLimit, untilItListens(p.server, c.port)).Succeed()
					client := guest.Start(t, p.client, exchangeLimit, on(p.client, c.client))
					if status, said := client.Wait(); status == 0 || early == maxEarly || !strings.Contains(said, refusedAgain) {
						client.Succeed()
						break
					}
					t.Log("the server did not listen for the second connection yet: again")
					server.Stop()
				}
				rpingServed(server)
			})
		})
	}
}
