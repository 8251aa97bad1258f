// SPDX-License-Identifier: BSD-2-Clause

package trp

import (
	"testing"

	"verbena/internal/congestion"
	"verbena/internal/monotime"
	wire "verbena/internal/wire/trp"
)

// roundTrip is that of the network of newWorld.
const roundTrip = 50 * monotime.Microsecond

// goodput returns the bytes per second of virtual time that one association brings across. The
// round trip is 50 µs, and the loss is so many in 1000 in both directions.
func goodput(t *testing.T, seed uint64, size, segments, loss int) (float64, *end) {
	t.Helper()
	w := newWorld(t, seed)
	var client, server *end
	w.server.onFresh = func(e *end) {
		e.size = client.size
		e.peer, client.peer, server = client, e, e
		if err := e.c.Accept(0, e, wire.Setup{}); err != nil {
			t.Fatal(err)
		}
	}
	client = w.client.add(nil)
	client.size = func(uint64) int { return size }
	w.client.start(client, w.server, Config{Window: 1024})
	w.run(monotime.Second, func() bool { _, ok := client.had(EventEstablished); return ok })
	w.net.Faults.Loss = loss
	client.toSend = segments
	from := w.net.Now()
	client.turn()
	if !w.run(100*monotime.Second, func() bool { return client.acked == uint64(segments) }) {
		t.Fatalf("%d of %d in 100 s", client.acked, segments)
	}
	return float64(server.bytes) / w.net.Now().Sub(from).Seconds(), client
}

// At 1 % loss the goodput is at least half of that of an ordinary window without loss. The window
// grows further on a path without loss, but not on every path.
func TestGoodputUnderLoss(t *testing.T) {
	for _, c := range []struct {
		name     string
		size     int
		segments int
	}{{"MTU 1500", 1024, 40000}, {"MTU 9000", 8192, 10000}} {
		free, _ := goodput(t, 1, c.size, c.segments, 0)
		free = min(free, congestion.Ordinary/roundTrip.Seconds())
		least := 1.0
		seeds := uint64(5)
		if testing.Short() {
			seeds = 2
		}
		for seed := range seeds {
			lossy, e := goodput(t, seed, c.size, c.segments, 10)
			n := e.c.Counters().By
			t.Logf("%s, seed %d: %.2f GB/s of %.2f, %d sent again, %d of them after %d time-outs, window %d",
				c.name, seed, lossy/1e9, free/1e9, n[Retransmitted], n[Retransmitted]-n[Lost], n[Timeouts], e.c.loss.Bytes())
			least = min(least, lossy/free)
			if again := float64(n[Retransmitted]) / float64(c.segments); again > 0.015 {
				t.Errorf("%s, seed %d: %.1f %% sent again where 1 %% is lost", c.name, seed, 100*again)
			}
		}
		t.Logf("%s: at least %.0f %%", c.name, 100*least)
		if least < 0.5 {
			t.Errorf("%s: %.0f %% of an ordinary window's goodput is left, want 50", c.name, 100*least)
		}
	}
}
