// SPDX-License-Identifier: BSD-2-Clause

package congestion

import "verbena/internal/monotime"

// dcqcn has the window of deliveryRate, and limits the rate as the reaction point of DCQCN does
// where the network marks packets.
//
// Deviation: an adapter knows the rate of its line, and sends at that rate until the first mark.
// The rate that a mark cuts first is here the fastest delivery of late.
//
// Deviation: DCQCN is for networks that lose nothing (PFC). The window stays, because Ethernet may
// lose packets. On a path longer than a period the round trip takes its place: nothing is cut or
// raised before the sender has seen what it did last.
type dcqcn struct {
	deliveryRate
	Reaction
	limited bool
}

func newDCQCN() *dcqcn {
	return &dcqcn{deliveryRate: *newDeliveryRate(), Reaction: NewReaction()}
}

func (d *dcqcn) acked(w *Window, now monotime.Time, n int) {
	d.deliveryRate.acked(w, now, n)
	if d.limited {
		d.raise(w, now, n)
	}
	d.limit(w)
}

func (d *dcqcn) sample(w *Window, took monotime.Duration, bytes int, undisturbed bool) {
	d.deliveryRate.sample(w, took, bytes, undisturbed)
	d.limit(w)
}

func (d *dcqcn) lost(w *Window, now monotime.Time, least int) {
	d.deliveryRate.lost(w, now, least)
	d.limit(w)
}

func (d *dcqcn) expired(w *Window, now monotime.Time, least, left int) {
	d.deliveryRate.expired(w, now, least, left)
	d.limit(w)
}

// marked cuts the rate.
func (d *dcqcn) marked(w *Window, now monotime.Time, _ int) {
	trip := max(w.RTT.Smoothed, 1)
	if !d.notified(now, trip) {
		return
	}
	d.lossless = false // slow start ends
	if !d.limited {
		d.limited, d.rate = true, d.fastest(w)
	}
	if d.loose(w) { // so it was not the rate that data went out at
		d.rate = min(d.rate, d.fastest(w))
	}
	d.cut(now, trip)
	d.limit(w)
}

// fastest returns the fastest delivery of late, in bytes a second.
func (d *dcqcn) fastest(w *Window) float64 {
	if d.product() > 0 {
		return float64(d.product()) / w.RTT.Shortest.Seconds()
	}
	return float64(w.bytes) / max(w.RTT.Smoothed, shortPath).Seconds()
}

// raise raises the rate for the time and the bytes that have passed.
func (d *dcqcn) raise(w *Window, now monotime.Time, n int) {
	d.Sent(now, w.RTT.Smoothed, n)
	if !w.marked && d.loose(w) {
		d.limited = false // but a network that still marks is to cut this rate further
	}
}

// holds raises the rate while a sender waits for more than a period, and shortens the wait by as
// much. A READ of many packets is sent at once, so at a low rate the wait may take 100 periods.
// Acknowledgements raise the rate, too, and shorten no wait.
//
// Source: internal/flows/testdata/incast.txt, 64 READs and 500 KB: 2.61 times the ideal, and 5.57
// without. Jain's index of eight READs at 1 ms is 0.85 if shorter waits are shortened, too.
func (d *dcqcn) holds(w *Window, now monotime.Time) monotime.Time {
	if !d.limited || w.sendAt.Add(-w.burst).Sub(now) <= max(dcqcnTimer, w.RTT.Smoothed) {
		return monotime.Never
	}
	if !now.Before(d.timerAt) {
		before := w.Rate()
		d.raise(w, now, 0)
		d.pace(w)
		d.limit(w)
		switch rate := w.Rate(); {
		case rate == 0: // nothing is paced any more
			w.sendAt, w.resume = now, 0
		case rate > before:
			w.sendAt = now.Add(monotime.Duration(float64(w.sendAt.Sub(now)) * before / rate))
		}
	}
	return max(d.timerAt, now.Add(1)) // after a pause some periods are left
}

// limit has the rate bound the pace. A window that is not used up does not grow.
func (d *dcqcn) limit(w *Window) {
	if d.limited {
		w.bytes = min(w.bytes, max(Ordinary, int(2*d.rate*w.RTT.Smoothed.Seconds())))
	}
	if d.limited && !d.loose(w) && (w.paceTime == 0 || d.rate < w.Rate()) {
		w.paceBytes, w.paceTime = int(d.rate), monotime.Duration(1e9)
	}
}

// loose reports whether the window is a tighter bound than the rate.
func (d *dcqcn) loose(w *Window) bool {
	return w.RTT.Smoothed > 0 && d.rate > float64(w.bytes)/w.RTT.Smoothed.Seconds()
}
