// SPDX-License-Identifier: BSD-2-Clause

package congestion

import (
	"testing"

	"verbena/internal/monotime"
)

// packet is the bytes of one, with its headers.
const packet = 4176

// pathOf returns a window of some packets on a path that has lost something before, and whose
// product is one such window.
func pathOf(trip monotime.Duration, packets int) *Window {
	d := newDeliveryRate()
	d.lossless = false
	w := &Window{bytes: packets * packet, algorithm: d}
	for i := range 40 {
		w.Sample(monotime.Time(0).Add(monotime.Duration(i+1)*trip), trip, w.bytes, true)
	}
	return w
}

// Two of twelve packets are more than an eighth. A path that loses so many now and then does not
// carry less for it, but one that does so all the time does.
func TestFewPacketsAreJudgedTogether(t *testing.T) {
	const packets, rounds = 12, 60
	for _, trip := range []monotime.Duration{monotime.Millisecond / 5, 10 * monotime.Millisecond} {
		for name, c := range map[string]struct {
			every   int // so many rounds lose two packets
			shrinks bool
		}{"two of 36": {3, false}, "two of 12": {1, true}} {
			for _, unit := range []int{1, packet} { // RC counts packets, TRP bytes
				w, shrinks := pathOf(trip, packets), false
				w.rank.mean = 0.5 // by chance, where the path is short
				for round := range rounds {
					lost := 0
					if round%c.every == 0 {
						lost = 2 * unit
					}
					shrinks = w.RoundEnds(0, lost, packets*unit, unit, least) || shrinks
				}
				if shrinks != c.shrinks {
					t.Errorf("%v, %s lost: the window shrinks: %v", trip, name, shrinks)
				}
			}
		}
	}
}

// Where most round trips lose packets by chance, the window of a loss does not bound those after it
// for a second.
func TestChanceLiftsTheCeiling(t *testing.T) {
	const packets = 80
	for name, every := range map[string]int{"every other round loses": 2, "each round loses": 1} {
		w := pathOf(10*monotime.Millisecond, packets)
		now := monotime.Time(0).Add(monotime.Second)
		w.Lost(now, least)
		ceiling := w.algorithm.(*deliveryRate).ceiling
		for round := range 2 * believeCeilingTrips {
			lost := 0
			if round%every == 0 {
				lost = 3
			}
			now = now.Add(10 * monotime.Millisecond)
			w.Sample(now, 10*monotime.Millisecond, w.Bytes()/20*19, true)
			w.RoundEnds(now, lost, packets, 1, least)
			w.Acked(now, w.Bytes())
		}
		if grows := w.Bytes() > ceiling; grows != (every == 1) {
			t.Errorf("%s: %d bytes after %v", name, w.Bytes(), now)
		}
	}
}

// A window that seems to be more than its path carries shrinks at a small queue. Where the path
// loses packets by chance it does not: lost packets are missing from the product.
func TestChanceIsNoQueue(t *testing.T) {
	const packets, trip = 80, 10 * monotime.Millisecond
	for name, c := range map[string]struct {
		rounds  int // with losses, before
		shrinks bool
	}{"the first loss": {0, true}, "the last of many": {believeCeilingTrips, false}} {
		w := pathOf(trip, packets)
		w.bytes += w.bytes / 8
		for range c.rounds {
			w.RoundEnds(0, 1, packets, 1, least)
		}
		for range len(w.trips) {
			w.Sample(0, trip+trip/20, packets*packet, true)
		}
		w.RTT.Variation = 0
		if shrinks := w.RoundEnds(0, 3, packets, 1, least); shrinks != c.shrinks {
			t.Errorf("%s: the window shrinks: %v", name, shrinks)
		}
	}
}

// A window may exceed its product by four times the jitter. For sixteen round trips after a loss in
// a full queue it is the jitter alone: that queue makes most of it.
func TestFullQueueMakesJitter(t *testing.T) {
	const packets, trip = 80, 10 * monotime.Millisecond
	for name, c := range map[string]struct {
		rank    float64 // of the losses before
		exceeds bool
	}{"full queue": {1, true}, "chance": {0.5, false}} {
		w := pathOf(trip, packets)
		w.rank.mean = c.rank
		w.jitter = trip / 32
		w.bytes += w.bytes / 10 // more than two 32nds, less than five
		w.RoundEnds(0, 1, packets, 1, least)
		for round := range rankTrips {
			w.missing = 0
			if w.exceeds() != c.exceeds {
				t.Errorf("%s, %d round trips later: exceeds: %v", name, round, w.exceeds())
			}
			w.RoundEnds(0, 0, packets, 1, least)
		}
		if w.exceeds() {
			t.Errorf("%s: the jitter counts once although nothing was lost of late", name)
		}
	}
}
