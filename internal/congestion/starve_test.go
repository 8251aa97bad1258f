// SPDX-License-Identifier: BSD-2-Clause

package congestion

import (
	"testing"

	"verbena/internal/monotime"
)

// A window that others have pushed far down grows again in their queue, up to half of the rate that
// it had. One that has more than that stays as it was, and so does one whose queue has just begun.
func TestStarvedWindowGrows(t *testing.T) {
	const ms = monotime.Millisecond
	for _, c := range []struct {
		part  int // of the product is left when the queue begins
		trips int
		want  float64 // of the rate before
	}{
		{8, 200, 0.5}, {3, 200, 0.5}, {8, starvedTrips - 2, 1.0 / 8}, {1, 200, 1},
	} {
		p := path{rtt: 10 * ms, rate: 125_000_000}
		var w Window
		w.Start(DeliveryRate)
		p.first(&w)
		p.until(&w, monotime.Second)
		alone := float64(w.Bytes()) / p.rtt.Seconds()
		w.algorithm.(*deliveryRate).lossless = false
		p.rtt = 16 * ms
		w.bytes = int(alone*p.rtt.Seconds()) / c.part
		w.RTT.Smoothed = p.rtt
		for range c.trips {
			p.turn(&w)
		}
		got := float64(w.Bytes()) / p.rtt.Seconds() / alone
		if got < 0.9*c.want || got > 1.1*c.want {
			t.Errorf("1/%d is left, after %d round trips: %.2f of the rate, want %.2f", c.part, c.trips,
				got, c.want)
		}
		if c.want == 0.5 {
			w.bytes /= 2
			before := w.Bytes()
			w.RoundEnds(p.now, 10, 100, 1, least)
			if n := w.Bytes(); n < before*7/8 || n >= before {
				t.Errorf("%d bytes after a loss, %d before", n, before)
			}
		}
	}
}
