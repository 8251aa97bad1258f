// SPDX-License-Identifier: BSD-2-Clause

package congestion

import (
	"math/rand/v2"
	"testing"

	"verbena/internal/monotime"
)

// The shortest round trip of a flow may be of the queue of others. On a short path it halves its
// window when the round trip is longest at its losses. Where losses come at any time, it keeps
// the product.
func TestLossesOfAShortPath(t *testing.T) {
	const trip, turns, losses = 800 * monotime.Microsecond, 8, 32
	for _, c := range []struct {
		name      string
		afterTrip func(loss int) int // of turns, after which something is lost
		part      float64            // of the window that the last loss leaves
	}{
		{"a full queue", func(int) int { return turns - 1 }, 0.5},
		{"chance", func(loss int) int { return loss * 5 % turns }, 0.85},
	} {
		var w Window
		w.Start(DeliveryRate)
		now, left := monotime.Time(0), 0.0
		for loss := range losses {
			for turn := range turns { // the queue grows
				took := trip + monotime.Duration(turn)*10*monotime.Microsecond
				now = now.Add(took)
				w.Sample(now, took, w.Bytes(), true)
				if turn == c.afterTrip(loss) {
					before := w.Bytes()
					w.Lost(now, least)
					left = float64(w.Bytes()) / float64(before)
				}
				w.bytes = 128 << 10
			}
		}
		if left < c.part || left > c.part+0.16 {
			t.Errorf("%s: the last loss leaves %.2f of the window, want %.2f", c.name, left, c.part)
		}
	}
}

// A sender that measures each packet is told from chance, too: its round trips count once each, and
// a loss has that which showed it. As much as is tolerated shrinks the window in a queue only.
func TestLossesOfASenderThatMeasuresEachPacket(t *testing.T) {
	const trip, packets, losses = 800 * monotime.Microsecond, 64, 48
	for _, c := range []struct {
		name string
		lost func(loss int) int // the packet whose round trip shows it
		part float64            // of the window that the last loss leaves
	}{
		{"a full queue", func(int) int { return packets - 1 }, 0.5},
		{"chance", func(loss int) int { return loss * 37 % packets }, 1},
	} {
		var w Window
		w.Start(DeliveryRate)
		now, left := monotime.Time(0), 0.0
		for loss := range losses {
			for i := range 8 * packets { // the queue grows for eight round trips
				now = now.Add(trip / packets)
				w.Sample(now, trip+monotime.Duration(i)*200, 0, false)
				if i/8 == c.lost(loss) && i%8 == 7 {
					w.Missed()
				}
			}
			w.bytes = 128 << 10
			w.RoundEnds(now, 1, packets, 1, least)
			left = float64(w.Bytes()) / (128 << 10)
		}
		if left != c.part {
			t.Errorf("%s: the last loss leaves %.2f of the window, want %.2f", c.name, left, c.part)
		}
	}
}

// The last packets of a burst are answered latest, and show most losses. That is no queue. (TRP
// with 1 % lost on loopback had 68 MB/s instead of 360.)
func TestLossesShownLateInABurst(t *testing.T) {
	const trip, packets = 300 * monotime.Microsecond, 64
	var w Window
	w.Start(DeliveryRate)
	random, now := rand.New(rand.NewPCG(1, 2)), monotime.Time(0)
	for loss := range 64 {
		for range 1 + random.IntN(16) {
			busy := monotime.Duration(random.IntN(int(trip))) // of the hosts
			now = now.Add(2 * trip)
			for i := range packets {
				w.Sample(now.Add(monotime.Duration(i)), trip+busy+monotime.Duration(i)*1000, 0,
					false)
			}
		}
		w.Missed()
		w.bytes = 128 << 10
		// at first losses are taken for those of a queue
		if w.RoundEnds(now, 1, packets, 1, least) && loss >= 48 {
			t.Errorf("loss %d shrinks the window", loss)
		}
	}
}

// Where a queue is always full the round trips are alike. Much loss beside one that stands tells.
func TestLossesOfAQueueThatStands(t *testing.T) {
	const empty, trip = 500 * monotime.Microsecond, 900 * monotime.Microsecond
	for _, c := range []struct {
		lost, all int
		shrinks   bool
	}{{2, 16, true}, {2, 32, false}, {1, 8, false}} {
		var w Window
		w.Start(DeliveryRate)
		w.Sample(0, empty, 0, true)
		now, shrinks := monotime.Time(0), false
		for range 64 {
			now = now.Add(trip)
			w.Sample(now, trip, 0, true)
			w.bytes = 128 << 10
			shrinks = w.RoundEnds(now, c.lost, c.all, 1, least)
		}
		if shrinks != c.shrinks {
			t.Errorf("%d lost of %d: the window shrinks: %v", c.lost, c.all, shrinks)
		}
	}
}

// The window of a short path grows little after losses of a full queue, beyond its product.
func TestGrowthInAQueueThatOverflows(t *testing.T) {
	const trip, product = 800 * monotime.Microsecond, 4 << 10
	var w Window
	w.Start(DeliveryRate)
	now := monotime.Time(trip)
	w.Sample(now, trip, product, true)
	w.Lost(now, least)
	before := w.Bytes()
	for range 4 {
		now = now.Add(trip)
		w.Sample(now, trip, product, true)
		w.Acked(now, w.Bytes())
	}
	if grown := w.Bytes() - before; grown == 0 || grown > before/16 {
		t.Errorf("%d bytes in four round trips, on top of %d", grown, before)
	}
}

// A window that a long path carries without a queue is not held below by a loss of slow start.
func TestWindowOfALossIsHeldByNoMoreThanThePathCarries(t *testing.T) {
	p := path{rtt: 10 * monotime.Millisecond, rate: 125_000_000}
	var w Window
	w.Start(DeliveryRate)
	for w.Bytes() < p.product() {
		p.turn(&w)
	}
	w.Lost(p.now, least)
	for range 20 { // less than a second: the loss is believed
		p.turn(&w)
	}
	if w.Bytes() < p.product()*99/100 {
		t.Errorf("%d bytes 20 round trips after the loss, %d fill the path", w.Bytes(), p.product())
	}
}
