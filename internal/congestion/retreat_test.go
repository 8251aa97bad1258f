// SPDX-License-Identifier: BSD-2-Clause

package congestion

import (
	"testing"

	"verbena/internal/monotime"
)

// Where the queue of a short buffer does not show, a window that loses 5 % falls to what the path
// carries. It stays there if little is lost then, and returns if as much is.
func TestRetreat(t *testing.T) {
	const carried, trip = 16 << 20, 100 * monotime.Millisecond
	for name, c := range map[string]struct {
		byChance bool
		starts   bool // slow start goes on
		falls    bool
	}{
		"full queue":           {false, false, true},
		"chance":               {true, false, false},
		"chance, at the start": {true, true, false},
	} {
		w := pathOf(trip, carried/packet)
		d := w.algorithm.(*deliveryRate)
		w.bytes += w.bytes / 20
		if c.starts {
			d.threshold = 2 * w.bytes
		}
		now, whole, tried := monotime.Time(0).Add(10*monotime.Second), w.Bytes(), false
		for range 2 * believeCeilingTrips {
			sent := w.Bytes()
			arrives := min(sent, carried)
			if c.byChance {
				arrives = sent / 20 * 19
			}
			now = now.Add(trip)
			w.Sample(now, trip, arrives, arrives == sent)
			w.RoundEnds(now, sent-arrives, sent, packet, least)
			w.Acked(now, arrives)
			tried = tried || w.Bytes() < whole*31/32
			if w.Bytes() < carried/32*30 {
				t.Fatalf("%s: %d bytes are left of %d", name, w.Bytes(), whole)
			}
		}
		if falls := w.Bytes() <= carried; falls != c.falls || tried == c.starts {
			t.Errorf("%s: %d bytes of %d, tried %v", name, w.Bytes(), whole, tried)
		}
	}
}

// A trial ends after two round trips. The window returns where as much is lost then, and where few
// packets decide nothing, but not where something else has shrunk it.
func TestRetreatEnds(t *testing.T) {
	const trip, packets = 100 * monotime.Millisecond, leastTried + 200
	for name, c := range map[string]struct {
		event     func(*Window, monotime.Time)
		lost, all int // in each round trip of the trial
		back      bool
	}{
		"as much is lost": {lost: packets / 20, all: packets, back: true},
		"little is lost":  {lost: packets / 100, all: packets},
		"few packets":     {all: 10, back: true},
		"a mark":          {event: func(w *Window, now monotime.Time) { w.Marked(now, least) }, all: 10},
		"a time-out": {event: func(w *Window, now monotime.Time) { w.Expired(now, least, least) },
			all: 10},
		"a drain": {event: func(w *Window, _ monotime.Time) {
			w.algorithm.drained(w, w.Bytes()/2)
		}, all: 10},
	} {
		w := pathOf(trip, packets)
		now, want := monotime.Time(0).Add(10*monotime.Second), w.Bytes()
		w.RoundEnds(now, packets/20, packets, 1, least)
		if w.Bytes() >= want {
			t.Fatalf("%s: no trial began", name)
		}
		if c.event != nil {
			c.event(w, now)
		}
		if !c.back {
			want = w.Bytes()
		}
		for range retreatTrips {
			now = now.Add(trip)
			w.RoundEnds(now, c.lost, c.all, 1, least)
		}
		if w.Bytes() != want {
			t.Errorf("%s: %d bytes, want %d", name, w.Bytes(), want)
		}
		if w.Acked(now, w.Bytes()); c.all == 10 && w.Bytes() <= want {
			t.Errorf("%s: the window does not grow any more", name)
		}
	}
}
