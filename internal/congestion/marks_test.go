// SPDX-License-Identifier: BSD-2-Clause

package congestion

import (
	"testing"

	"verbena/internal/monotime"
)

func TestParseAlgorithm(t *testing.T) {
	for name, want := range map[string]Algorithm{"": DeliveryRate, "delivery-rate": DeliveryRate,
		"dcqcn": DCQCN} {
		if a, err := ParseAlgorithm(name); a != want || err != nil {
			t.Errorf("%q: %v, %v", name, a, err)
		}
	}
	const want = "cubic: no such congestion control; use delivery-rate or dcqcn"
	if _, err := ParseAlgorithm("cubic"); err == nil || err.Error() != want {
		t.Errorf("%v, want %q", err, want)
	}
}

// perTrip returns how many bytes a sender may send in a round trip.
func perTrip(p *path, w *Window) float64 {
	n := float64(w.Bytes())
	if rate := w.Rate(); rate > 0 {
		n = min(n, rate*p.rtt.Seconds())
	}
	return n
}

// Forged notifications that never end leave a sender a small window or rate. It fills the path
// again soon after the last of them.
func TestForgedMarks(t *testing.T) {
	const every, lasts = 10 * monotime.Microsecond, monotime.Second
	for _, a := range []Algorithm{DeliveryRate, DCQCN} {
		for _, rtt := range []monotime.Duration{100 * monotime.Microsecond, 10 * monotime.Millisecond} {
			p := path{rtt: rtt, rate: 1_250_000_000}
			var w Window
			w.Start(a)
			for range 40 {
				p.turn(&w)
			}
			for end, next := p.now.Add(lasts), p.now; next.Before(end); next = next.Add(every) {
				if w.Marked(next, least); !next.Before(p.now.Add(p.rtt)) {
					p.turn(&w)
				}
			}
			floor := float64(least)
			if a == DCQCN {
				floor = dcqcnLeast * p.rtt.Seconds()
			}
			product := float64(p.product())
			if n := perTrip(&p, &w); n < 0.99*floor || rtt < shortPath && n > product/2 {
				t.Errorf("%v, %v: %.0f bytes a round trip are left of %.0f", a, rtt, n, product)
			}
			begin := p.now
			for perTrip(&p, &w) < 0.9*product && p.now.Sub(begin) < 10*monotime.Second {
				p.turn(&w)
			}
			if took := p.now.Sub(begin); took > max(200*rtt, 2*monotime.Second) {
				t.Errorf("%v, %v: %v until %.0f bytes a round trip, of %.0f", a, rtt, took,
					perTrip(&p, &w), product)
			}
		}
	}
}

// However many notifications come in a round trip, the sender reacts to one.
func TestMarksOfOneRoundTripCountOnce(t *testing.T) {
	for _, a := range []Algorithm{DeliveryRate, DCQCN} {
		p := path{rtt: 500 * monotime.Microsecond, rate: 1_250_000_000}
		var w Window
		w.Start(a)
		for range 40 {
			p.turn(&w)
		}
		w.Marked(p.now, least)
		after := perTrip(&p, &w)
		for range 9 {
			p.now = p.now.Add(50 * monotime.Microsecond)
			w.Marked(p.now, least)
		}
		if n := perTrip(&p, &w); n != after {
			t.Errorf("%v: %.0f bytes a round trip after one mark, %.0f after ten", a, after, n)
		}
	}
}

// The first mark ends slow start on a short path and halves the window, or DCQCN's rate.
func TestFirstMark(t *testing.T) {
	p := path{rtt: 500 * monotime.Microsecond, rate: 1_250_000_000}
	for _, a := range []Algorithm{DeliveryRate, DCQCN} {
		var w Window
		w.Start(a)
		for range 40 {
			p.turn(&w)
		}
		before := float64(w.Bytes())
		if a == DCQCN {
			before = float64(p.product())
		}
		w.Marked(p.now, least)
		if n := perTrip(&p, &w); n < 0.45*before || n > 0.55*before {
			t.Errorf("%v: %.0f bytes a round trip, %.0f before", a, n, before)
		}
	}
}

// A network that has not marked for a second and 16 round trips counts as one that does not, until
// the next mark.
func TestMarksLapse(t *testing.T) {
	for _, a := range []Algorithm{DeliveryRate, DCQCN} {
		for rtt, lasts := range map[monotime.Duration]monotime.Duration{
			monotime.Millisecond: monotime.Second, 100 * monotime.Millisecond: 1600 * monotime.Millisecond,
		} {
			p := path{rtt: rtt, rate: 12_500_000}
			var w Window
			w.Start(a)
			for range 40 {
				p.turn(&w)
			}
			burst := w.burst
			w.Marked(p.now, least)
			from := p.now
			for range 2 {
				if p.turn(&w); !w.Marks() || w.burst == burst {
					t.Errorf("%v, %v: forgotten after %v", a, rtt, p.now.Sub(from))
				}
			}
			w.Acked(from.Add(lasts-1), 1)
			if !w.Marks() {
				t.Errorf("%v, %v: forgotten in less than %v", a, rtt, lasts)
			}
			w.Acked(from.Add(3*lasts), 1) // queues made the round trips longer
			if w.Marks() || w.burst != burst {
				t.Errorf("%v, %v: believed for ever", a, rtt)
			}
			if w.Marked(from.Add(3*lasts), least); !w.Marks() || w.burst == burst {
				t.Errorf("%v, %v: a new mark is not believed", a, rtt)
			}
		}
	}
}

// On a long path a queue shows that its buffer is not one that marks packets, once marks are old.
// After the next loss the window does not grow in that queue.
func TestQueueThatIsNotMarked(t *testing.T) {
	p := path{rtt: 10 * monotime.Millisecond, rate: 1_250_000_000}
	var w Window
	w.Start(DeliveryRate)
	for range 40 {
		p.turn(&w)
	}
	w.Marked(p.now, least)
	if w.Bytes() >= p.product() {
		t.Fatalf("%d bytes after a mark, the product is %d", w.Bytes(), p.product())
	}
	for range 200 {
		p.turn(&w)
	}
	w.Lost(p.now, least)
	for range 1000 {
		p.turn(&w)
	}
	if n, product := w.Bytes(), p.product(); n < product || n > product*5/4 {
		t.Errorf("%d bytes long after the loss, the product is %d", n, product)
	}
}

// Marks slow a sender down whose window is a tighter bound than its rate, too: the next one cuts
// the rate that the last one left, and not the fastest delivery again.
func TestMarksSlowAFlowThatItsWindowBounds(t *testing.T) {
	const rtt, window = 2 * monotime.Millisecond, 100 << 10
	p := path{rtt: rtt, rate: 125_000_000}
	var w Window
	w.Start(DCQCN)
	for range 40 {
		p.turn(&w)
	}
	d := w.algorithm.(*dcqcn)
	d.threshold, d.alpha = window, 0.04 // as losses and marks of a long time leave them
	for i := range 100 {
		took := rtt * 13 / 10 // a queue
		if i%8 == 0 {
			took = rtt * 11 / 10
		}
		w.bytes = window
		p.now = p.now.Add(took)
		w.Sample(p.now, took, window, true)
		w.Acked(p.now, window)
		w.Marked(p.now, least)
	}
	if n := w.Rate() * w.RTT.Smoothed.Seconds(); n > window*9/10 {
		t.Errorf("%.0f bytes a round trip after 100 marks, with a window of %d", n, window)
	}
}
