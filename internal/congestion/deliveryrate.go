// SPDX-License-Identifier: BSD-2-Clause

package congestion

import "verbena/internal/monotime"

// Window bounds, in bytes. Slow start reaches Ordinary without asking whether there is a queue:
// that much fits a socket of ordinary size (net.core.rmem_max of 212,992) in segmented bursts. Free
// is given to short paths. With it a sender need not wait while its peer's thread has lost its core
// for some 100 µs at 10 GB/s. Beyond it the window is at most twice the product of bandwidth and
// delay, and Most: 10 Gb/s over 200 ms.
const (
	Ordinary = 320 << 10
	Free     = 2 << 20
	Most     = 256 << 20
)

// believeCeiling and believeCeilingTrips bound the window after a loss: the longer counts.
const (
	believeCeiling      = monotime.Second
	believeCeilingTrips = 16
)

// probe is a vast window's first growth in a round trip, one segmented send. The window is then as
// large as the path was seen to carry.
const probe = 64 << 10

// The window grows by leastStep bytes in the round trip after a loss or a mark, and by a
// mostStep'th of itself at most. So all flows that share a queue grow alike at first, and their
// shares even out.
const (
	leastStep = 1024
	mostStep  = 16
)

// maxQueue bounds the queue in which the window still grows, as does an eighth of the
// round trip. Source: RFC 9406, section 4.2 (MAX_RTT_THRESH is 16 ms there).
const maxQueue = 4 * monotime.Millisecond

// partsOfTrip is the number of parts of a round trip.
const partsOfTrip = 8

// memory is after how many round trips a product is forgotten that was not seen again.
const memory = 8

// deliveryRate has the window follow the product of bandwidth and delay: how much arrived during a
// round trip, scaled to the shortest round trip. A loss halves the window, but not to less than
// that product: the path carried that much without a queue, so a loss at that window was chance.
// Growth ends where a queue shows in the round trip. A marked packet shrinks the window; see
// marks.
//
// On a long path a window goes out over a round trip: a buffer that is shorter than the path would
// not hold it. Short paths are not paced: timers are too coarse there, and the window is small.
//
// Sources: the floor at the product is TCP Westwood+ (Grieco and Mascolo, 2004); the end of
// growth by delay is HyStart's (RFC 9406, section 4.2).
type deliveryRate struct {
	threshold int // slow start below
	// The window at the last loss says how much the way and the peer's socket hold. It is
	// believed for a while.
	ceiling      int
	ceilingUntil monotime.Time
	lossless     bool // nothing was ever lost
	queued       bool // the newest round trip shows a queue
	// Once something was lost or marked, the window grows by step bytes in a round trip. Step
	// doubles after each without a loss or a mark.
	step    int
	stepEnd monotime.Time
	marks   marks
	// While no queue shows the window grows by probe bytes until probeEnd.
	probe    int
	probeEnd monotime.Time
	// the largest products of bandwidth and delay of this period and the one before
	largest, before int
	samples         int // of this period
	// bytes that have arrived since partStart, and the rate of the part before
	part      int
	partStart monotime.Time
	partRate  float64
}

func newDeliveryRate() *deliveryRate {
	return &deliveryRate{threshold: Ordinary, ceiling: Most, lossless: true}
}

// product returns the product of bandwidth and delay, 0 while it is not known.
func (d *deliveryRate) product() int { return max(d.largest, d.before) }

func (d *deliveryRate) sample(w *Window, took monotime.Duration, bytes int, undisturbed bool) {
	if undisturbed {
		d.queued = w.Long() && took > w.RTT.Shortest+min(w.RTT.Shortest/8, maxQueue)
		d.largest = max(d.largest, int(float64(bytes)*float64(w.RTT.Shortest)/float64(took)))
		d.age()
	}
	d.pace(w)
}

// age forgets the period before when this one is over.
func (d *deliveryRate) age() {
	if d.samples++; d.samples == memory {
		d.before, d.largest, d.samples = d.largest, 0, 0
	}
}

func (d *deliveryRate) starts() bool { return d.lossless }

// startsSlowly reports whether the window doubles each round trip.
func (d *deliveryRate) startsSlowly(w *Window) bool {
	return w.bytes < d.threshold || d.lossless && w.Long() && !d.queued
}

func (d *deliveryRate) acked(w *Window, now monotime.Time, n int) {
	if !w.marked && (d.queued || !w.Long()) { // this queue is not marked
		d.marks.reacted = false
	}
	if vast(w) {
		d.deliveries(w, now, n)
	}
	d.grow(w, now, n)
	d.pace(w)
}

// vast reports whether a window is for a path that holds more than the buffers of most networks.
func vast(w *Window) bool { return w.Long() && w.bytes > Free }

// deliveries takes a part of a round trip for a sample of the product, once n more bytes have
// arrived. The end of slow start fills the path for a part of a round trip only. The slower of two
// parts in a row counts, since acknowledgements may come late and then together.
func (d *deliveryRate) deliveries(w *Window, now monotime.Time, n int) {
	took, least := now.Sub(d.partStart), max(w.RTT.Smoothed/partsOfTrip, shortPath)
	if took >= least {
		rate := float64(d.part) / took.Seconds()
		if took < 2*least {
			product := int(min(rate, d.partRate) * w.RTT.Shortest.Seconds())
			d.largest = max(d.largest, min(product, w.bytes))
		}
		d.part, d.partRate, d.partStart = 0, rate, now
	}
	d.part += n
}

func (d *deliveryRate) grow(w *Window, now monotime.Time, n int) {
	most := min(max(Free, 2*d.product()), Most)
	if w.bytes >= most && d.ceiling == Most {
		w.bytes = most
		return
	}
	switch {
	case d.startsSlowly(w):
		w.bytes += n
	case d.queued && !d.marks.reacted:
	case w.Long() && w.bytes < d.product():
		w.bytes += n / 8
	case d.marks.reacted:
		w.bytes += d.growth(w, now, n)
	case vast(w): // all that the path carried is in use
		w.bytes += d.probing(w, now, n)
	case w.Long():
		w.bytes += n / 32
	case d.lossless:
		w.bytes += n / 8
	default:
		w.bytes += max(4096*n/w.bytes, 1)
	}
	if d.ceiling < Most && !now.Before(d.ceilingUntil) {
		d.ceiling = Most
	}
	w.bytes = min(w.bytes, d.ceiling, most)
}

// growth returns by how much the window grows for n bytes that have arrived.
func (d *deliveryRate) growth(w *Window, now monotime.Time, n int) int {
	if !now.Before(d.stepEnd) {
		d.step = max(min(2*d.step, w.bytes/mostStep), leastStep)
		d.stepEnd = now.Add(w.RTT.Smoothed)
	}
	return max(int(float64(n)*float64(d.step)/float64(w.bytes)), 1)
}

// probing returns by how much the window grows for n bytes that have arrived while no queue shows.
// Its growth in a round trip begins with probe, and doubles: the path may carry much more by now.
func (d *deliveryRate) probing(w *Window, now monotime.Time, n int) int {
	if !now.Before(d.probeEnd) {
		if now.Sub(d.probeEnd) > w.RTT.Smoothed {
			d.probe = 0
		}
		d.probe = max(min(2*d.probe, w.bytes/mostStep), probe)
		d.probeEnd = now.Add(w.RTT.Smoothed)
	}
	return int(float64(n) * float64(d.probe) / float64(w.bytes))
}

// slow has the window grow little at first: two round trips pass until packets sent now show.
func (d *deliveryRate) slow(w *Window, now monotime.Time) {
	d.step, d.stepEnd = leastStep, now.Add(2*w.RTT.Smoothed)
	d.probe = 0
}

func (d *deliveryRate) lost(w *Window, now monotime.Time, least int) {
	d.lossless = false
	d.slow(w, now)
	product := d.product()
	d.ceiling = max(w.bytes*7/8, Ordinary, product+product/16)
	d.ceilingUntil = now.Add(believeCeilingTrips * w.RTT.Smoothed)
	if !vast(w) {
		d.ceilingUntil = max(d.ceilingUntil, now.Add(believeCeiling))
	}
	d.threshold = max(w.bytes/2, min(product, w.bytes), least)
	w.bytes = d.threshold
	d.pace(w)
}

func (d *deliveryRate) expired(w *Window, now monotime.Time, least, left int) {
	if w.RTT.Smoothed != 0 {
		d.lost(w, now, least)
	}
	w.sendAt = 0
	w.bytes = left
	d.pace(w)
}

func (d *deliveryRate) marked(w *Window, now monotime.Time, least int) {
	cut, ok := d.marks.marked(w, now, d.startsSlowly(w))
	if !ok {
		return
	}
	d.lossless = false
	d.slow(w, now)
	w.bytes = max(w.bytes-int(float64(w.bytes)*cut), min(least, w.bytes))
	d.threshold = w.bytes
	d.pace(w)
}

// pace sets a pace above that of the window, so that the window decides: twice while it doubles,
// else by a quarter, and by a twentieth where buffers hold a small part of the window.
func (d *deliveryRate) pace(w *Window) {
	w.paceTime, w.paceBytes = 0, w.bytes
	switch {
	case !w.Long():
	case d.startsSlowly(w):
		w.paceTime = w.RTT.Smoothed / 2
	case d.marks.reacted || vast(w):
		w.paceTime = w.RTT.Smoothed * 19 / 20
	default:
		w.paceTime = w.RTT.Smoothed * 4 / 5
	}
}
