// SPDX-License-Identifier: BSD-2-Clause

package congestion

import (
	"slices"

	"verbena/internal/monotime"
)

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

// believeCeiling and believeCeilingTrips bound the window after a loss: the longer counts. With 16
// round trips alone a READ at 10 ms drops 3.5 % instead of 0. See losesByChance for the exception.
const (
	believeCeiling      = monotime.Second
	believeCeilingTrips = 16
)

// probe is a vast window's first growth in a round trip, one segmented send. The window is then as
// large as the path was seen to carry.
const probe = 64 << 10

// The window grows by leastStep bytes in the round trip after a loss or a mark. It grows by a 16th
// of itself at most, or at stepRate bytes a second. So all flows that share a queue grow alike at
// first, and their shares even out. Where the round trips of a short path show no queue, losses are
// by chance: growth goes on by chanceStep at least. With 1.4 KB, and less than the product after a
// loss, a flow had 149 MB/s at 10 Gb/s and 1 % instead of 1,010.
//
// Source: internal/flows/testdata/fairness.txt, with ECN. On 2026-11-27 Jain's index of eight flows
// fell from 1.00 to 0.83 at 0.1 ms without leastStep. Without stepRate it fell from 0.993 to 0.971
// at 10 ms.
const (
	leastStep  = 1024
	stepRate   = 1_600_000
	chanceStep = 6144
)

// overflowPart is the part of the window, 1/96, by which it grows beyond the product in a round
// trip. It holds where the queue of a short path overflows. The part that is dropped rises with its
// square. With 1/32 eight READs dropped 2.8 % instead of 0.9 on 2026-11-27.
const overflowPart = 96

// maxQueue bounds the queue in which the window still grows, as does a share of the
// round trip, queueShare. Source: RFC 9406, section 4.3 (MIN_RTT_DIVISOR; MAX_RTT_THRESH is 16 ms
// there).
const (
	maxQueue   = 4 * monotime.Millisecond
	queueShare = 8
)

// partsOfTrip is the number of parts of a round trip. The end of slow start fills the path for a
// part of one only: over a whole one the product was half of the path's.
const partsOfTrip = 8

// memory is after how many round trips a product is forgotten that was not seen again, or twice as
// many. BBR's filter of the bandwidth has 10.
//
// Source: draft-cardwell-iccrg-bbr-congestion-control-00 (BBR.BtlBwFilterLen). With 4 TRP uses 47 %
// at 10 ms after a rise instead of 89: internal/flows/testdata/change.txt.
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
	trip         int  // the oldest of the newest round trips
	calm         int  // round trips in a row without queue, loss or mark
	rises        int  // round trips in a row that carried more than all before
	// Once something was lost or marked, the window grows by step bytes in a round trip. Step
	// doubles after each without a loss or a mark.
	step    int
	stepEnd monotime.Time
	marks   marks
	retreat retreat
	// While no queue shows the window grows by probe bytes until probeEnd.
	probe    int
	probeEnd monotime.Time
	// products of bandwidth and delay, by round trips and by parts of them
	byTrip, byPart peak
	samples        int    // of this period
	newest         [3]int // products
	// bytes that have arrived since partStart, and the rate of the part before
	part      int
	partStart monotime.Time
	partRate  float64
}

func newDeliveryRate() *deliveryRate {
	return &deliveryRate{threshold: Ordinary, ceiling: Most, lossless: true}
}

// peak is the largest value of this period and of the one before.
type peak struct{ largest, before int }

func (p *peak) add(n int) { p.largest = max(p.largest, n) }

func (p *peak) most() int { return max(p.largest, p.before) }

func (p *peak) atMost(n int) { p.largest, p.before = min(p.largest, n), min(p.before, n) }

// age begins a period.
func (p *peak) age() { p.largest, p.before = 0, p.largest }

// product returns the product of bandwidth and delay, 0 while it is not known.
func (d *deliveryRate) product() int { return max(d.byTrip.most(), d.byPart.most()) }

func (d *deliveryRate) carries(most int) {
	d.byTrip.atMost(most)
	d.byPart.atMost(most)
}

func (d *deliveryRate) sample(w *Window, took monotime.Duration, bytes int, undisturbed bool) {
	if undisturbed {
		w.queued = w.Long() && took > w.queueLimit()
		w.trips[d.trip], d.trip = took, (d.trip+1)%len(w.trips)
		bytes = max(bytes, min(bytes+w.wait.together, w.bytes))
		product := int(float64(bytes) * min(float64(w.base())/float64(took), 1))
		d.rise(w, product)
		d.byTrip.add(d.repeated(w, product))
		d.age()
		if d.calm++; w.queued {
			d.calm = 0
		}
	}
	if e := d.estimate(w); e > 0 && d.lossless {
		d.threshold = min(d.threshold, e)
	}
	d.pace(w)
}

// The window grows fast after leastRises round trips in a row that carried more than all before,
// each by 1/risePart of it. With three a WRITE that creeps up to the product overfills a buffer of
// 100 KB.
//
// Source: internal/flows/testdata/start.txt (rows with jitter) and fairness.txt (WRITE at 10 ms).
const (
	leastRises = 5
	risePart   = 64
)

// rise takes note of the product of a round trip. Where it rises with the window before the first
// loss, the path carries more than was estimated from the train. A window that grew beyond the path
// so goes back.
func (d *deliveryRate) rise(w *Window, product int) {
	switch {
	case !d.lossless || !w.Long() || d.startsSlowly(w):
		d.rises = 0
	case !w.queued && product > d.byTrip.most()+d.byTrip.most()/risePart:
		d.rises++
	default:
		if d.rises > leastRises {
			w.bytes = min(w.bytes, max(d.product(), product))
		}
		d.rises = 0
	}
}

// repeated returns how much of a product counts. On a long path that loses packets it is what three
// round trips in a row carried. The largest of many is that of luck: a flow gets more than its
// share of a queue now and then. Those of eight READs were 15 % above what they had, so their
// windows overfilled the link by 17 %, and a tenth was dropped.
//
// A peer that goes back N loses whole windows, so few of its round trips carry one. Where the
// network marks packets, marks keep the queue short.
func (d *deliveryRate) repeated(w *Window, product int) int {
	d.newest = [3]int{product, d.newest[0], d.newest[1]}
	if d.lossless || !w.Long() || vast(w) || w.wentBack || w.marked {
		return product
	}
	return slices.Min(d.newest[:])
}

// queueLimit returns the round trip beyond which there is a queue.
func (w *Window) queueLimit() monotime.Duration {
	return w.base() + min(w.RTT.Shortest/queueShare, maxQueue)
}

// age forgets the period before when this one is over.
func (d *deliveryRate) age() {
	if d.samples++; d.samples == memory {
		d.byTrip.age()
		d.byPart.age()
		d.samples = 0
	}
}

func (d *deliveryRate) starts() bool { return d.lossless }

// carried returns the window up to which it grows by an eighth in a round trip. With marks it keeps
// a distance to the product: else several flows would grow back into the queue at once.
func (d *deliveryRate) carried() int {
	if d.marks.reacted {
		return d.product() / 16 * 15
	}
	return d.product()
}

// startsSlowly reports whether the window doubles each round trip. On a long path that ends at the
// estimate: from there a window that doubles overshoots by up to a product.
func (d *deliveryRate) startsSlowly(w *Window) bool {
	if w.bytes < d.threshold {
		return true
	}
	if !d.lossless || !w.Long() || d.retreat.left > 0 {
		return false
	}
	if e := d.estimate(w); e > 0 {
		return w.bytes < e && slices.Min(w.trips[:]) <= w.queueLimit()
	}
	return !w.queued
}

// estimate returns the product of bandwidth and delay by the train of a long path, 0 if it is not
// known.
func (d *deliveryRate) estimate(w *Window) int {
	if !w.Long() {
		return 0
	}
	e := int(min(w.train.rate*w.RTT.Shortest.Seconds(), Most))
	if e < leastTrains*w.train.bytes {
		return 0
	}
	return e
}

// farBelow reports whether the window is less than a quarter of the estimate. It trebles there in a
// round trip.
func (d *deliveryRate) farBelow(w *Window) bool { return d.lossless && w.bytes < d.estimate(w)/4 }

func (d *deliveryRate) acked(w *Window, now monotime.Time, n int) {
	if !w.marked && (w.queued || !w.Long()) { // this queue is not marked
		d.marks.reacted = false
	}
	d.marks.acked(now, n)
	if vast(w) {
		d.deliveries(w, now, n)
	}
	d.grow(w, now, n)
	if d.startsSlowly(w) {
		d.calm = 0
	}
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
			product := int(min(rate, d.partRate) * w.base().Seconds())
			d.byPart.add(min(product, w.bytes))
		}
		d.part, d.partRate, d.partStart = 0, rate, now
	}
	d.part += n
}

func (d *deliveryRate) grow(w *Window, now monotime.Time, n int) {
	if d.retreat.left > 0 {
		return
	}
	most := min(max(Free, 2*d.product(), d.estimate(w)), Most)
	if w.bytes >= most && d.ceiling == Most {
		w.bytes = most
		return
	}
	switch {
	case d.startsSlowly(w):
		if now.Before(d.marks.roundEnd) {
			n /= 4 // a round trip with a mark
		}
		if d.farBelow(w) {
			n *= 2
		}
		w.bytes += n
		if e := d.estimate(w); e > 0 && d.lossless {
			w.bytes = max(min(w.bytes, e), w.bytes-n)
		}
	case w.competes() && !d.marks.reacted:
		w.bytes += d.growth(w, now, n)
	case w.queued && !d.marks.reacted:
	case w.Long() && w.bytes < d.carried():
		w.bytes += n / 8
	case w.Long() && !d.marks.reacted && d.rises >= leastRises:
		w.bytes += min(n/8<<(d.rises-leastRises), n/4)
	case w.Long() && !d.marks.reacted && w.exceeds():
		d.calm, d.probe = 0, 0
	case vast(w) && !d.marks.reacted: // all that the path carried is in use
		w.bytes += d.probing(w, now, n)
	case w.Long() && !d.marks.reacted:
		// Twice as much after two calm round trips: they pass until packets sent now show. A path
		// whose rate has risen is filled soon then.
		w.bytes += min(n/32<<min(d.calm/2, 4), n/4)
	case d.lossless && !w.Long():
		w.bytes += n / 8
	default:
		w.bytes += d.growth(w, now, n)
	}
	if d.ceiling < Most && (!now.Before(d.ceilingUntil) || w.losesByChance()) {
		d.ceiling = Most
	}
	w.bytes = min(w.bytes, max(d.ceiling, d.held(w)), most)
}

// held returns the window that a long path is known to carry, whatever a window before it lost:
// that of slow start may have overfilled a short buffer. A vast window believes a loss less long.
func (d *deliveryRate) held(w *Window) int {
	if !w.Long() {
		return 0
	}
	return min(d.product()+d.product()/partsOfExcess, Free)
}

// overflows reports whether the losses of a short path are of a full queue.
func (w *Window) overflows() bool { return !w.Long() && w.rank.queue() }

// mostStep returns by how much the window may grow in a round trip, a 16th of itself. Small windows
// of a long path may grow by more: so flows of different windows become alike.
func (w *Window) mostStep() int {
	return max(w.bytes/16, int(stepRate*w.RTT.Smoothed.Seconds()))
}

// growth returns by how much the window grows for n bytes that have arrived.
func (d *deliveryRate) growth(w *Window, now monotime.Time, n int) int {
	if w.overflows() && !d.marks.reacted {
		if w.bytes < d.product() {
			return n / 8
		}
		return max(n/overflowPart, 1)
	}
	if !now.Before(d.stepEnd) {
		d.step = max(min(2*d.step, w.mostStep()), leastStep)
		if !d.marks.reacted && w.RTT.Smoothed < 2*w.RTT.Shortest {
			d.step = max(d.step, chanceStep)
		}
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
		d.probe = max(min(2*d.probe, w.bytes/16), probe)
		d.probeEnd = now.Add(w.RTT.Smoothed)
	}
	return int(float64(n) * float64(d.probe) / float64(w.bytes))
}

// slow has the window grow little at first: two round trips pass until packets sent now show.
func (d *deliveryRate) slow(w *Window, now monotime.Time) {
	d.step, d.stepEnd = leastStep, now.Add(2*w.RTT.Smoothed)
	d.calm, d.probe, d.rises = 0, 0, 0
}

func (d *deliveryRate) lost(w *Window, now monotime.Time, least int) {
	d.lossless = false
	d.slow(w, now)
	w.judged, w.judgedLost, w.unlucky = 0, 0, 0
	product := d.product()
	d.believe(w, now, max(w.bytes*7/8, Ordinary, product+product/16))
	d.retreat.left = 0
	if w.overflows() { // it holds the queue of others, too
		product = 0
	}
	d.threshold = max(w.bytes/2, min(product, w.bytes), least)
	w.bytes = d.threshold
	d.pace(w)
}

// believe has the window stay below a ceiling for a while.
func (d *deliveryRate) believe(w *Window, now monotime.Time, ceiling int) {
	d.ceiling, d.ceilingUntil = ceiling, now.Add(believeCeilingTrips*w.RTT.Smoothed)
	if !vast(w) {
		d.ceilingUntil = max(d.ceilingUntil, now.Add(believeCeiling))
	}
}

func (d *deliveryRate) expired(w *Window, now monotime.Time, least, left int) {
	if w.RTT.Smoothed != 0 {
		d.lost(w, now, least)
	}
	w.sendAt, w.resume = 0, 0
	w.bytes = left
	d.pace(w)
}

func (d *deliveryRate) holds(*Window, monotime.Time) monotime.Time { return monotime.Never }

func (d *deliveryRate) drained(w *Window, product int) {
	d.byTrip.add(product)
	d.retreat.left = 0
	w.bytes = min(w.bytes, max(d.product(), Initial))
	d.threshold = min(d.threshold, w.bytes)
	d.pace(w)
}

func (d *deliveryRate) marked(w *Window, now monotime.Time, least int) {
	cut, ok := d.marks.marked(w, now, least, d.startsSlowly(w))
	if !ok {
		return
	}
	d.lossless, d.retreat.left = false, 0
	d.slow(w, now)
	w.bytes = max(w.bytes-int(float64(w.bytes)*cut), min(least, w.bytes))
	d.threshold = w.bytes
	d.pace(w)
}

// pace sets a pace above that of the window, so that the window decides: twice while it doubles,
// else by a quarter, and by a hundredth where buffers hold a small part of the window.
func (d *deliveryRate) pace(w *Window) {
	w.paceTime, w.paceBytes = 0, w.bytes
	switch {
	case !w.Long():
	case d.startsSlowly(w):
		w.paceTime = w.RTT.Smoothed / 2
		if d.farBelow(w) {
			w.paceTime = w.RTT.Smoothed / 3
		}
		if e := d.estimate(w); d.lossless && w.bytes > e/2 && w.bytes < e {
			w.paceTime = monotime.Duration(float64(w.RTT.Smoothed) * float64(w.bytes) / float64(e))
		}
	case d.marks.reacted:
		w.paceTime = w.RTT.Smoothed * 9 / 10
	case vast(w):
		w.paceTime = w.RTT.Smoothed * 99 / 100
	default:
		w.paceTime = w.RTT.Smoothed * 3 / 4
	}
}
