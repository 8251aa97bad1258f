// SPDX-License-Identifier: BSD-2-Clause

package congestion

import (
	"testing"

	"verbena/internal/monotime"
)

// Acknowledgements that come together after a gap have waited at a host, not in a queue.
func TestWaitOfAcknowledgements(t *testing.T) {
	const trip = 2 * monotime.Millisecond
	for _, c := range []struct {
		name     string
		events   int
		gap      monotime.Duration
		longest  monotime.Duration
		together int
	}{
		{"one by one", 1, 200, 0, 0},
		{"two of one packet", 2, trip / 4, 0, 0},
		{"a nap", 3, trip / 4, trip / 4, 3000},
		{"nothing to send", 3, 10 * trip, trip / 2, 3000},
	} {
		w := wait{at: monotime.Time(trip)}
		now := w.at
		for range 4 {
			now = now.Add(c.gap)
			for range c.events {
				w.arrived(now, 1000, trip)
			}
			w.arrived(now, 0, trip)
		}
		if w.longest != c.longest || w.together != c.together {
			t.Errorf("%s: %v, %d bytes, want %v, %d", c.name, w.longest, w.together, c.longest,
				c.together)
		}
	}
}

// A wait is forgotten once acknowledgements come one by one.
func TestWaitIsForgotten(t *testing.T) {
	const trip = 2 * monotime.Millisecond
	var w wait
	now := monotime.Time(trip)
	for range leastTogether {
		w.arrived(now, 1000, trip)
	}
	if w.longest == 0 {
		t.Fatal("no wait to forget")
	}
	before := w
	for range 64 {
		now = now.Add(trip)
		w.arrived(now, 1000, trip)
	}
	if w.longest > before.longest/100 || w.together > before.together/10 {
		t.Errorf("%v, %d bytes", w.longest, w.together)
	}
}

// A window does not stop to grow where round trips are long because hosts sleep.
func TestGrowthWhereHostsNap(t *testing.T) {
	const ms = monotime.Millisecond
	grows := func(nap bool) bool {
		var w Window
		w.Start(DeliveryRate)
		now := monotime.Time(ms)
		ack := func(took monotime.Duration) {
			now = now.Add(took)
			w.Acked(now, 4000)
			if nap {
				w.Acked(now, 4000)
				w.Acked(now, 4000)
			}
			w.Sample(now, took, w.Bytes(), true)
		}
		ack(11 * ms / 10) // a packet that came as its host awoke
		w.Lost(now, 8<<10)
		ack(2 * ms)
		before := w.Bytes()
		for range 100 {
			ack(2 * ms)
		}
		return w.Bytes() > before
	}
	if grows(false) {
		t.Error("grows into a queue")
	}
	if !grows(true) {
		t.Error("a nap is taken for a queue")
	}
}
