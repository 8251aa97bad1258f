// SPDX-License-Identifier: BSD-2-Clause

//go:build linux && interop

package interop

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"verbena/interop/guest"
)

// The shape of TestLoss.
var (
	lossyMessages = flag.Int("loss-messages", 250, "messages of 64 KiB that TestLoss sends")
	lossyChance   = flag.String("loss-chance", "1%", "loss each way of TestLoss")
)

// TestLoss has WRITEs and READs cross a wire that loses 1 % each way and has a round trip of 1 ms.
// netem loses what guests send, and Verbena's own faults what it sends. All arrives, and no
// connection ends. The log has the times that programs took, with the set-up of their connections.
func TestLoss(t *testing.T) {
	newWire(t, guest.UML).lossy(t)
}

// TestLossBetweenGuests shows how rxe does with itself.
func TestLossBetweenGuests(t *testing.T) {
	newPeersWire(t).lossy(t)
}

func (w wire) lossy(t *testing.T) {
	var guests []guest.Host
	for _, p := range w.pairs {
		if _, isGuest := p.server.(*guest.Guest); isGuest {
			guests = append(guests, p.server)
		}
	}
	for _, g := range guests {
		guest.Run(t, g, exchangeLimit, fmt.Sprintf("tc qdisc add dev eth0 root netem limit 10000 delay %dus loss %s", 1000/len(guests), *lossyChance))
	}
	for _, p := range w.pairs {
		for _, program := range []string{"ib_write_bw", "ib_read_bw"} {
			t.Run(fmt.Sprintf("%s/%s_to_%s", program, p.client.Name(), p.server.Name()), func(t *testing.T) {
				on := func(h guest.Host) string {
					return "VERBENA_FAULTS=seed=7,loss=" + *lossyChance + " " + unmodified(h, fmt.Sprintf("%s -F -s 65536 -n %d -t 16 -d %s -x %d", program, *lossyMessages, rdmaDevice(h), gidIndex(t, h, h.IPv4())))
				}
				server := guest.Start(t, p.server, exchangeLimit, on(p.server))
				server.Expect("Waiting for client")
				start := time.Now()
				client := guest.Start(t, p.client, exchangeLimit, onceItListens(on(p.client)+" "+p.server.IPv4().String()))
				client.Succeed()
				t.Logf("%d messages of 64 KiB in %v", *lossyMessages, time.Since(start)) // perftest's own clock stands in a guest
				server.Succeed()
			})
		}
	}
}
