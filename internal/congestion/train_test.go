// SPDX-License-Identifier: BSD-2-Clause

package congestion

import (
	"math"
	"testing"

	"verbena/internal/monotime"
)

// A packet that is repeated before the first acknowledgement is answered late if its first copy was
// lost. The rest of the first window is the train.
func TestTrainOfARepeatedPacket(t *testing.T) {
	const us, ms, bytes = monotime.Microsecond, monotime.Millisecond, 1000
	for name, c := range map[string]struct {
		trip    monotime.Duration
		arrived int
	}{
		"one of it was lost": {50 * ms, 15}, "so was an acknowledgement": {50 * ms, 11},
		"a long path": {200 * ms, 15},
	} {
		var a train
		for range 16 {
			a.sent(1, bytes)
		}
		a.repeated(monotime.Time(1).Add(10 * ms))
		back := monotime.Time(1).Add(c.trip)
		for i := range c.arrived {
			a.arrived(back.Add(monotime.Duration(i)*8*us), bytes)
		}
		a.arrived(back.Add(10*ms), (16-c.arrived)*bytes)
		if want := 125e6; math.Abs(a.rate-want) > want/1000 {
			t.Errorf("%s: %.0f bytes a second, want %.0f", name, a.rate, want)
		}
	}
}

// The acknowledgements of a first window come at the rate of the path's slowest link. A train that
// is short, whose packets did not leave together, or that lost one says nothing.
func TestTrain(t *testing.T) {
	const us = monotime.Microsecond
	for name, c := range map[string]struct {
		packets     int
		sent, acked monotime.Duration // between two packets, and two acknowledgements
		lost        bool
		want        float64 // bytes a second
	}{
		"1 Gb/s":            {16, 0, 8 * us, false, 125e6},
		"10 Gb/s":           {16, us / 10, us * 8 / 10, false, 1250e6},
		"two packets":       {2, 0, 8 * us, false, 0},
		"slower than that":  {16, 8 * us, 8 * us, false, 0},
		"all at once":       {16, 0, 0, false, 0},
		"one of it is lost": {16, 0, 8 * us, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			const bytes = 1000
			var a train
			for i := range c.packets {
				a.sent(monotime.Time(1).Add(monotime.Duration(i)*c.sent), bytes)
			}
			back := monotime.Time(1).Add(monotime.Millisecond)
			for i := range c.packets {
				if c.lost && i == 3 {
					a.lost()
				}
				a.arrived(back.Add(monotime.Duration(i)*c.acked), bytes)
			}
			a.sent(back, bytes) // of the second window
			a.arrived(back.Add(monotime.Second), bytes)
			if math.Abs(a.rate-c.want) > c.want/1000 {
				t.Errorf("%.0f bytes a second, want %.0f", a.rate, c.want)
			}
		})
	}
}

// Slow start of a long path ends at the product that the first window shows, and does not
// overshoot it by a product.
func TestSlowStartEndsAtTheTrain(t *testing.T) {
	p := path{rtt: 10 * monotime.Millisecond, rate: 125_000_000}
	var w Window
	w.Start(DeliveryRate)
	p.first(&w)
	for range 10 {
		if p.turn(&w); w.Bytes() > p.product()*5/4 {
			t.Fatalf("a window of %d bytes, %d fill the path", w.Bytes(), p.product())
		}
	}
	if w.Bytes() < p.product()*9/10 {
		t.Errorf("%d bytes after ten round trips, %d fill the path", w.Bytes(), p.product())
	}
}

// first sends the first window at once, and has it acknowledged at the rate of the path.
func (p *path) first(w *Window) {
	const packet = 1024
	n := w.Bytes() / packet
	for range n {
		w.Sent(p.now, packet)
	}
	p.now = p.now.Add(p.rtt)
	w.Sample(p.now, p.rtt, packet, true)
	for range n {
		w.Acked(p.now, packet)
		p.now = p.now.Add(monotime.Duration(packet * 1e9 / p.rate))
	}
}

// How much of a round trip is lost decides whether the window shrinks. Less counts where a queue
// shows. Losses that are tolerated never do.
func TestRoundEnds(t *testing.T) {
	const packets = 1000
	for name, c := range map[string]struct {
		lost, tolerated int
		queue           bool
		left            float64 // of the window
	}{
		"much of a few with a queue":  {packets / 7, packets / 7, true, 1. / 2},
		"much of a few":               {packets / 7, packets / 7, false, 1},
		"nothing is lost":             {0, 0, false, 1},
		"a packet, none is tolerated": {1, 0, false, 1. / 2},
		"a packet of a long path":     {1, 1, true, 1},
		"an eighth":                   {packets / 8, 1, false, 1},
		"more than an eighth":         {packets/8 + 1, 1, false, 1. / 2},
		"2 % with a queue":            {packets / 50, 1, true, 1},
		"more with a queue":           {packets/50 + 1, 1, true, 7. / 8},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDeliveryRate()
			d.lossless = false
			w := Window{bytes: 1 << 20, algorithm: d}
			trip := 10 * monotime.Millisecond
			w.RTT.Sample(trip)
			if c.queue {
				trip += 2 * monotime.Millisecond
			}
			for range 40 {
				w.Sample(0, trip, 1, true)
			}
			d.byTrip, d.byPart = peak{}, peak{} // not known
			before := w.bytes
			shrinks := w.RoundEnds(0, c.lost, packets, c.tolerated, least)
			if got := float64(w.bytes) / float64(before); got != c.left || shrinks != (got < 1) {
				t.Errorf("%.3f of the window is left, want %.3f; it shrinks: %v", got, c.left, shrinks)
			}
		})
	}
}
