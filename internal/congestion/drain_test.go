// SPDX-License-Identifier: BSD-2-Clause

package congestion

import (
	"testing"

	"verbena/internal/monotime"
)

// until lets round trips pass for so long.
func (p *path) until(w *Window, took monotime.Duration) {
	for end := p.now.Add(took); p.now < end; {
		p.turn(w)
	}
}

// A path that becomes longer for good is learnt, and filled again.
func TestLongerPathIsLearnt(t *testing.T) {
	for _, rate := range []int{125_000_000, 1_250_000_000} {
		for _, ms := range []monotime.Duration{12, 20, 30, 200} {
			p := path{rtt: 10 * monotime.Millisecond, rate: rate}
			var w Window
			w.Start(DeliveryRate)
			p.first(&w)
			p.until(&w, monotime.Second)
			p.rtt = ms * monotime.Millisecond
			p.until(&w, drainAfter+100*p.rtt)
			if n := w.Bytes(); n < p.product()*9/10 || n > p.product()*5/4 {
				t.Errorf("%d bytes/s, %v: %d bytes fill the path, the window has %d", rate, p.rtt,
					p.product(), n)
			}
			if w.RTT.Shortest != p.rtt {
				t.Errorf("%v on a path of %v", w.RTT.Shortest, p.rtt)
			}
		}
	}
}

// A queue that the window itself has made is not taken for a longer path, and goes.
func TestOwnQueueIsNoLongerPath(t *testing.T) {
	p := path{rtt: 10 * monotime.Millisecond, rate: 125_000_000}
	var w Window
	w.Start(DeliveryRate)
	p.first(&w)
	p.until(&w, monotime.Second)
	w.bytes = 3 * p.product()
	p.until(&w, drainAfter-monotime.Second)
	if w.bytes < 2*p.product() {
		t.Fatalf("%d bytes before a drain", w.bytes)
	}
	p.until(&w, 10*drainAfter)
	if w.RTT.Shortest > p.rtt*9/8 || w.bytes > p.product()*5/4 {
		t.Errorf("%v on a path of %v, a window of %d", w.RTT.Shortest, p.rtt, w.bytes)
	}
}

// A drain takes a few round trips, and leaves the window as it was. One without an answer goes on.
func TestDrain(t *testing.T) {
	const ms = monotime.Millisecond
	p := path{rtt: 10 * ms, rate: 125_000_000}
	var w Window
	w.Start(DeliveryRate)
	p.first(&w)
	p.until(&w, monotime.Second)
	before, near := w.Bytes(), w.drain.near
	p.rtt = 20 * ms
	for p.now.Sub(near) < drainAfter-p.rtt {
		if p.turn(&w); w.Bytes() != before {
			t.Fatalf("%d bytes after %v, %d before", w.Bytes(), p.now.Sub(near), before)
		}
	}
	p.now = p.now.Add(monotime.Second)
	p.turn(&w)
	if n := w.Bytes(); n > before/2 || n < before/8 {
		t.Errorf("%d bytes of %d are left", n, before)
	}
	began := p.now
	for w.Bytes() < before {
		if p.turn(&w); p.now.Sub(began) > 10*p.rtt {
			t.Fatalf("%d bytes after %v", w.Bytes(), p.now.Sub(began))
		}
	}
	if w.RTT.Shortest != p.rtt {
		t.Errorf("%v on a path of %v", w.RTT.Shortest, p.rtt)
	}
}

// A late packet after silence begins no drain. It would leave the window the product of the small
// requests before the silence.
func TestSilenceIsNoLongerPath(t *testing.T) {
	const ms = monotime.Millisecond
	p := path{rtt: 50 * ms, rate: 125_000_000}
	var w Window
	w.Start(DeliveryRate)
	p.first(&w)
	p.until(&w, 2*monotime.Second)
	w.Lost(p.now, least)
	p.until(&w, 5*monotime.Second)
	request := func(took monotime.Duration) {
		p.now = p.now.Add(took)
		w.Sample(p.now, took, 4096, true)
		w.Acked(p.now, 4096)
	}
	for range 20 {
		p.now = p.now.Add(monotime.Second)
		request(p.rtt)
	}
	before := w.Bytes()
	for range 3 {
		p.now = p.now.Add(2 * drainAfter)
		request(p.rtt + 5*ms)
		if n := w.Bytes(); n < before {
			t.Fatalf("%d bytes after a silence, %d before", n, before)
		}
	}
	p.rtt *= 2
	if p.until(&w, drainAfter+20*p.rtt); w.RTT.Shortest != p.rtt {
		t.Errorf("%v on a path of %v that is used again", w.RTT.Shortest, p.rtt)
	}
}
