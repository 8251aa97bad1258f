// SPDX-License-Identifier: BSD-2-Clause

package congestion

import "verbena/internal/monotime"

// drain measures how long a path is where its shortest round trip has not been seen for long. The
// path may have become longer, or a queue stays. So the window falls to half of the product: a
// queue that this flow made is gone a round trip later. Then the shortest is measured anew.
//
// Time in which nothing was outstanding does not count. The first packet after it may be late, and
// the product that of small requests before: it would be all that is left of the window.
//
// All flows that share a queue see it become short at one time. So they drain it at one time, too.
// The window goes on at the product, so that a queue that they had made does not come again.
//
// Source: draft-ietf-ccwg-bbr, ProbeRTT and idle_restart.
type drain struct {
	near    monotime.Time     // of the newest round trip that was near the shortest, and later
	best    int               // product at that time
	seen    monotime.Time     // of the newest round trip
	began   monotime.Time     // 0: there is no drain
	product int               // when it began
	trip    monotime.Duration // when it began
	window  int               // while it goes on
	least   monotime.Duration // round trip of packets sent a trip later or more, 0 if there is none
}

// drainAfter is for how long no round trip is near the shortest before a drain. Source:
// BBR.MinRTTFilterLen of draft-ietf-ccwg-bbr.
const drainAfter = 10 * monotime.Second

// drainPart is the part of the product, 1/2, that is left of a window. Source: BBR.ProbeRTTCwndGain
// of draft-ietf-ccwg-bbr.
const drainPart = 2

// drainTrips bounds a drain from below, in round trips: flows may begin theirs two apart.
const drainTrips = 4

// leastSilence is the time without a round trip from which on nothing was outstanding. Where
// packets are lost, it may be some hundred milliseconds until one is measured.
const leastSilence = monotime.Second

// drains takes note of a round trip. It begins a drain, or ends one.
func (w *Window) drains(now monotime.Time, took monotime.Duration) {
	d := &w.drain
	if silent := now.Sub(d.seen) - took; silent > leastSilence {
		d.near = d.near.Add(silent)
	}
	switch {
	case !w.Long() || took <= w.queueLimit():
		if d.began != 0 {
			w.algorithm.drained(w, d.product)
		}
		*d = drain{near: now, best: w.algorithm.product()}
	case d.began != 0:
		if now.Sub(d.began)-took >= d.trip && (d.least == 0 || took < d.least) {
			d.least = took
		}
		if d.least != 0 && now.Sub(d.began) >= drainTrips*d.trip {
			longer := float64(d.least) / float64(w.RTT.Shortest)
			w.RTT.Shortest = d.least
			w.algorithm.drained(w, int(float64(d.product)*longer))
			*d = drain{near: now, best: w.algorithm.product()}
		}
	case now.Sub(d.near) >= drainAfter:
		d.began, d.trip = now, max(w.RTT.Smoothed, took)
		d.product = w.algorithm.product()
		d.window = min(d.product, w.bytes) / drainPart
	}
	d.seen = now
}
