// SPDX-License-Identifier: BSD-2-Clause

package rc

import (
	"math"
	"math/bits"
	"testing"

	"verbena/internal/congestion"
	"verbena/internal/monotime"
)

// A loss is by chance where few packets are lost and some of the newest round trips met no queue.
func TestChance(t *testing.T) {
	const us = monotime.Microsecond
	type trips []monotime.Duration
	quick, slow := trips{1000 * us}, trips{1500 * us}
	for name, c := range map[string]struct {
		first     int   // packets before the first loss
		trips     trips // after each loss
		run       int   // packets between two losses
		window    int
		variation monotime.Duration
		want      lossCause
	}{
		"no queue":                           {100, quick, 100, 128, 0, byChance},
		"a short queue":                      {100, trips{1100 * us}, 100, 128, 0, byChance},
		"a queue":                            {100, slow, 100, 128, 0, inQueue},
		"jitter":                             {100, trips{1500 * us, 1010 * us, 1400 * us}, 100, 128, 200 * us, byChance},
		"jitter of half a round trip":        {100, trips{1300 * us, 1500 * us}, 100, 128, 200 * us, byChance},
		"jitter and a queue":                 {100, trips{1900 * us, 2300 * us}, 100, 128, 200 * us, inQueue},
		"more than 2 % lost":                 {100, quick, 40, 64, 0, tooLarge},
		"a window of more than two runs":     {100, quick, 100, 250, 0, tooLarge},
		"no round trip is measured any more": {100, nil, 100, 128, 0, tooLarge},
		"a queue after a million":            {1e6, slow, 100, 128, 0, inQueue},
		"2 % lost after a million":           {1e6, quick, 50, 100, 0, byChance},
		"10 % lost after a million":          {1e6, quick, 10, 128, 0, tooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			var l chance
			arrived, got := c.first, tooLarge
			for range 4 {
				l.sample(1000 * us)
			}
			if l.lost(arrived*1024, 1024, c.window, 1000*us, c.variation) != tooLarge {
				t.Error("the first loss may end slow start")
			}
			for range 20 {
				for _, trip := range c.trips {
					l.sample(trip)
				}
				arrived += c.run
				got = l.lost(arrived*1024, 1024, c.window, 1000*us, c.variation)
			}
			if got != c.want {
				t.Errorf("cause %v, want %v", got, c.want)
			}
		})
	}
}

// Without four round trips nothing is by chance.
func TestChanceNeedsRoundTrips(t *testing.T) {
	var l chance
	for i := range 4 {
		if l.lost(100*(i+1), 1, 128, 1000, 0) == byChance {
			t.Fatalf("by chance with %d round trips measured", i)
		}
		l.sample(1000)
	}
	if l.lost(500, 1, 128, 1000, 0) != byChance {
		t.Fatal("not by chance with four")
	}
}

// After losses by chance a window becomes what it was before, and no more. Other losses have it
// forgotten.
func TestChanceRestoresTheWindow(t *testing.T) {
	var c chance
	if got := c.window(byChance, 128<<10); got != 128<<10 {
		t.Fatalf("%d left of a window of 128 KiB", got)
	}
	if got := c.window(tooLarge, 128<<10); got != 0 {
		t.Fatalf("%d left by congestion", got)
	}
	if got := c.window(inQueue, 64<<10); got != 56<<10 {
		t.Fatalf("%d left of 64 KiB in a queue, want 7/8", got)
	}
	w := 64 << 10
	for range 10 {
		w = c.window(byChance, w)
	}
	if w != 120<<10 {
		t.Fatalf("%d after ten losses by chance, want 15/16 of 128 KiB", w)
	}
	for range 100 {
		c.window(tooLarge, w)
	}
	if got := c.window(byChance, 8<<10); got > 9<<10 {
		t.Fatalf("%d: a window of long ago is not forgotten", got)
	}
}

// Packets dropped at one in ten shrink the window, however long nothing was lost before. A large
// window does not stretch that: the longer runs it needs are forgotten as soon.
func TestChanceForgetsLongRuns(t *testing.T) {
	for _, window := range []int{128, 1000, 10_000} {
		var c chance
		arrived, losses, w := 0, 0, window
		for range 20 {
			c.lost(arrived, 1, window, 1000, 0)
			arrived += 1e6
		}
		for ; w > 20 && losses < 100; losses++ {
			for range 4 {
				c.sample(1000)
			}
			cause := c.lost(arrived, 1, w, 1000, 0)
			w = max(w/2, c.window(cause, w))
			arrived += 10
		}
		if halvings := bits.Len(uint(window / 20)); losses > len(c.runs)+halvings {
			t.Errorf("a window of %d has shrunk to %d after %d losses", window, w, losses)
		}
	}
}

// The count of bytes delivered wraps: after 4 GiB where an int has 32 bits.
func TestChanceCountsOnWhenBytesWrap(t *testing.T) {
	const mtu, run = 1024, 100
	const packet = mtu + headerBytes
	var r requester
	r.loss.start(congestion.DeliveryRate)
	r.loss.delivered = math.MaxInt - 5*run*packet
	r.loss.chance.delivered = r.loss.delivered
	for range 20 {
		r.loss.delivered += run * packet
		r.lost(0, mtu)
	}
	for _, got := range r.loss.chance.runs {
		if got != run {
			t.Errorf("a run of %d packets, want %d", got, run)
		}
	}
}
