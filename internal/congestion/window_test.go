// SPDX-License-Identifier: BSD-2-Clause

package congestion

import (
	"testing"

	"verbena/internal/monotime"
)

const least = 8 << 10

// path is a network that delivers a window a round trip, at a rate, without loss.
type path struct {
	rtt  monotime.Duration
	rate int // bytes a second
	now  monotime.Time
}

// turn lets one round trip pass.
func (p *path) turn(w *Window) {
	took := max(p.rtt, monotime.Duration(float64(w.Bytes())/float64(p.rate)*1e9))
	p.now = p.now.Add(took)
	w.Sample(p.now, took, w.Bytes(), true)
	w.Acked(p.now, w.Bytes())
}

func (p *path) product() int { return int(p.rtt.Seconds() * float64(p.rate)) }

func TestWindowReachesTheProductOnALongPath(t *testing.T) {
	for _, ms := range []monotime.Duration{2, 10, 50, 200} {
		p := path{rtt: ms * monotime.Millisecond, rate: 1_250_000_000}
		var w Window
		w.Start(DeliveryRate)
		for range 12 {
			p.turn(&w)
		}
		if w.Bytes() < p.product() {
			t.Errorf("%v: %d bytes after 12 round trips, %d fill the path", p.rtt, w.Bytes(), p.product())
		}
		for range 1000 {
			p.turn(&w)
		}
		if w.Bytes() > max(Free, 5*p.product()/2) {
			t.Errorf("%v: %d bytes, %d fill the path", p.rtt, w.Bytes(), p.product())
		}
	}
}

func TestWindowOfAShortPathIsFree(t *testing.T) {
	p := path{rtt: 50 * monotime.Microsecond, rate: 1_000_000_000}
	var w Window
	w.Start(DeliveryRate)
	for range 5 {
		p.turn(&w)
	}
	if w.Bytes() < Ordinary {
		t.Errorf("%d bytes after five round trips: slow start reaches %d", w.Bytes(), Ordinary)
	}
	for range 30 {
		p.turn(&w)
	}
	if w.Bytes() != Free {
		t.Errorf("%d bytes after 30 more, want %d", w.Bytes(), Free)
	}
}

// A socket that holds less loses packets once, and then not for a while.
func TestWindowStaysBelowWhatWasTooMuch(t *testing.T) {
	p := path{rtt: 50 * monotime.Microsecond, rate: 1_000_000_000}
	var w Window
	w.Start(DeliveryRate)
	for range 8 {
		p.turn(&w)
	}
	tooMuch := w.Bytes()
	w.Lost(p.now, least)
	for range 1000 {
		p.turn(&w)
	}
	if w.Bytes() >= tooMuch || w.Bytes() < tooMuch/2 {
		t.Errorf("%d bytes after %d were too much", w.Bytes(), tooMuch)
	}
	p.now = p.now.Add(believeCeiling)
	for range 1000 {
		p.turn(&w)
	}
	if w.Bytes() < tooMuch {
		t.Errorf("%d bytes: %d are not tried again", w.Bytes(), tooMuch)
	}
}

// Losses that do not depend on the window leave a window that fills the path.
func TestChanceLeavesTheProduct(t *testing.T) {
	p := path{rtt: 20 * monotime.Millisecond, rate: 125_000_000}
	var w Window
	w.Start(DeliveryRate)
	for range 30 {
		p.turn(&w)
	}
	for range 100 {
		w.Lost(p.now, least)
		p.turn(&w)
	}
	if w.Bytes() < p.product()*9/10 {
		t.Errorf("%d bytes, %d fill the path", w.Bytes(), p.product())
	}
	for range 100 { // nothing comes any more
		w.Sample(p.now, p.rtt, 1000, true)
		w.Lost(p.now, least)
	}
	if w.Bytes() > 2*least {
		t.Errorf("%d bytes where a path carries next to nothing", w.Bytes())
	}
}

// Flows that share a queue get more than their share of it now and then. On a path that loses
// packets that is no product: else the windows of all are too large.
func TestLuckIsNoProduct(t *testing.T) {
	p := path{rtt: 10 * monotime.Millisecond, rate: 12_500_000}
	var w Window
	w.Start(DeliveryRate)
	for range 30 {
		p.turn(&w)
	}
	w.Lost(p.now, least)
	for i := range 100 {
		p.now = p.now.Add(p.rtt)
		arrived := p.product()
		if i%4 == 0 {
			arrived += arrived / 4
		}
		w.Sample(p.now, p.rtt, arrived, true)
		w.Acked(p.now, arrived)
	}
	if got := w.algorithm.product(); got > p.product() {
		t.Errorf("a product of %d bytes where the path carries %d", got, p.product())
	}
}

// The window follows a path whose rate falls by ten, although something is lost in each round trip.
func TestRateFalls(t *testing.T) {
	const packet, trips = 1000, 8
	p := path{rtt: 10 * monotime.Millisecond, rate: 125_000_000}
	var w Window
	w.Start(DeliveryRate)
	for range 40 {
		p.turn(&w)
	}
	p.rate /= 10
	for range trips {
		p.now = p.now.Add(p.rtt)
		all := w.Bytes() / packet
		w.RoundEnds(p.now, max(all-p.product()/packet, 0), all, 1, least)
	}
	if w.Bytes() > 2*p.product() {
		t.Errorf("%d bytes after %d round trips, %d fill the path", w.Bytes(), trips, p.product())
	}
}

// lag is a path whose round trips bring what the window before them held, some a little late.
type lag struct {
	path
	flying int
	late   monotime.Duration // of every second round trip
}

func (l *lag) turn(w *Window) {
	const parts = 32
	took := max(l.rtt, monotime.Duration(float64(l.flying)/float64(l.rate)*1e9))
	took += l.late
	l.late = l.rtt/32 - l.late
	flown := l.flying
	l.flying = w.Bytes()
	w.Sample(l.now, took, flown, true)
	for range parts {
		l.now = l.now.Add(took / parts)
		w.Acked(l.now, flown/parts)
	}
}

// A train that a host delayed gives too small an estimate. The window fills the path soon all the
// same. The queue that it makes when it reaches the product goes.
func TestWindowFollowsAProductThatRises(t *testing.T) {
	for _, ms := range []monotime.Duration{10, 50} {
		l := lag{path: path{rtt: ms * monotime.Millisecond, rate: 125_000_000}}
		var w Window
		w.Start(DeliveryRate)
		w.train = train{bytes: 12 << 10, rate: float64(l.rate / 10), over: true}
		trips := 0
		for ; w.Bytes() < l.product(); trips++ {
			if trips == 40 {
				t.Fatalf("%v: %d bytes after %d round trips, %d fill the path", l.rtt, w.Bytes(), trips,
					l.product())
			}
			l.turn(&w)
		}
		for range 5 {
			l.turn(&w)
		}
		if w.Bytes() > l.product()*9/8 {
			t.Errorf("%v: %d bytes after %d round trips and five more, %d fill the path", l.rtt,
				w.Bytes(), trips, l.product())
		}
	}
}

// A loss that ends slow start early costs a long and fast path some round trips, not a thousand.
func TestVastWindowGrowsAgain(t *testing.T) {
	p := path{rtt: 50 * monotime.Millisecond, rate: 1_250_000_000}
	var w Window
	w.Start(DeliveryRate)
	for range 6 {
		p.turn(&w)
	}
	w.Lost(p.now, least)
	if w.Bytes() > p.product()/8 {
		t.Fatalf("%d bytes, %d fill the path", w.Bytes(), p.product())
	}
	for range 80 {
		p.turn(&w)
	}
	if w.Bytes() < p.product() {
		t.Errorf("%d bytes after 80 round trips, %d fill the path", w.Bytes(), p.product())
	}
	for range 100 {
		p.turn(&w)
	}
	if w.Bytes() > p.product()*5/4 {
		t.Errorf("%d bytes at last, %d fill the path", w.Bytes(), p.product())
	}
}

// Slow start that fills a path for a part of a round trip shows what the path carries. One late
// burst of acknowledgements does not.
func TestPartOfTripShowsTheRate(t *testing.T) {
	for _, late := range []bool{false, true} {
		p := path{rtt: 50 * monotime.Millisecond, rate: 1_250_000_000}
		var w Window
		w.Start(DeliveryRate)
		for w.Bytes() < p.product()/4 {
			p.turn(&w)
		}
		parts, slice := 10, p.rtt/40
		if late {
			parts = 1
		}
		for range parts { // at the rate of the link, then nothing
			p.now = p.now.Add(slice)
			w.Acked(p.now, int(float64(p.rate)*slice.Seconds()*float64(10/parts)))
		}
		p.now = p.now.Add(p.rtt)
		w.Acked(p.now, 1)
		before := w.Bytes()
		w.Lost(p.now, least)
		if kept := w.Bytes() > before*3/4; kept == late {
			t.Errorf("late %v: %d bytes of %d after a loss, %d fill the path", late, w.Bytes(), before,
				p.product())
		}
	}
}

// A time-out leaves a window of one packet. A loss before the path is known does not count against
// it.
func TestExpired(t *testing.T) {
	p := path{rtt: 20 * monotime.Millisecond, rate: 125_000_000}
	var w Window
	w.Start(DeliveryRate)
	w.Expired(0, least, 2047)
	if w.Bytes() != 2047 {
		t.Errorf("%d bytes after a time-out", w.Bytes())
	}
	for range 12 {
		p.turn(&w)
	}
	if w.Bytes() < Ordinary {
		t.Errorf("%d bytes after 12 round trips", w.Bytes())
	}
	w.Expired(p.now, least, 2047)
	if w.Bytes() != 2047 {
		t.Errorf("%d bytes after a time-out", w.Bytes())
	}
}
