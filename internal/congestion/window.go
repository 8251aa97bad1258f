// SPDX-License-Identifier: BSD-2-Clause

// Package congestion bounds how many bytes a sender may have outstanding on one path. The
// peer sees nothing of it. It has no clock: times are passed in.
//
// The window follows the product of bandwidth and delay: how much arrived during a round trip,
// scaled to the shortest round trip. A loss halves the window, but not to less than that product:
// the path carried that much without a queue, so a loss at that window was chance. Growth ends
// where a queue shows in the round trip.
//
// Sources: the floor at the product is TCP Westwood+ (Grieco and Mascolo, 2004); the end of
// growth by delay is HyStart's (RFC 9406, section 4.2).
package congestion

import (
	"verbena/internal/monotime"
	"verbena/internal/rtt"
)

// Window bounds, in bytes. Slow start reaches Ordinary without asking whether there is a queue:
// that much fits a socket of ordinary size (net.core.rmem_max of 212,992) in segmented bursts. Free
// is given to short paths. With it a sender need not wait while its peer's thread has lost its core
// for some 100 µs at 10 GB/s. Beyond it the window is at most twice the product of bandwidth and
// delay, and Most: 10 Gb/s over 200 ms.
const (
	Initial  = 128 << 10
	Ordinary = 320 << 10
	Free     = 2 << 20
	Most     = 256 << 20
)

// shortPath is the round trip below which Free is more than a network needs, and in which
// the scheduling of processes hides all queues.
const shortPath = monotime.Millisecond

// believeCeiling and believeCeilingTrips bound the window after a loss: the longer counts.
const (
	believeCeiling      = monotime.Second
	believeCeilingTrips = 16
)

// probe bounds the growth in a round trip once the window is as large as the path was seen to
// carry: one segmented send. A 32nd of the window bounds it, too.
const probe = 64 << 10

// maxQueue bounds the queue in which the window still grows, as does an eighth of the
// round trip. Source: RFC 9406, section 4.2 (MAX_RTT_THRESH is 16 ms there).
const maxQueue = 4 * monotime.Millisecond

// burstTime lets a sender be ahead of the pace: 62 KB at 1 Gb/s, which is one
// segmented send.
const burstTime = monotime.Millisecond / 2

// memory is after how many round trips a product is forgotten that was not seen again.
const memory = 8

// Window is the state of one path.
type Window struct {
	RTT rtt.Estimator

	bytes     int
	threshold int // slow start below
	// The window at the last loss says how much the way and the peer's socket hold. It is
	// believed for a while.
	ceiling      int
	ceilingUntil monotime.Time
	lossless     bool          // nothing was ever lost
	queued       bool          // the newest round trip shows a queue
	sendAt       monotime.Time // when the line is free of all sent so far, at the pace
	// the largest products of bandwidth and delay of this period and the one before
	product, before int
	samples         int // of this period
}

// Start begins anew with an unknown path.
func (w *Window) Start() {
	*w = Window{bytes: Initial, threshold: Ordinary, ceiling: Most, lossless: true}
}

// Bytes returns the window.
func (w *Window) Bytes() int { return w.bytes }

// Product returns the product of bandwidth and delay, 0 while it is not known.
func (w *Window) Product() int { return max(w.product, w.before) }

// Sample takes in the round trip of a packet that was sent once, and how many bytes were
// acknowledged in its time. Undisturbed says that nothing was lost meanwhile.
func (w *Window) Sample(took monotime.Duration, bytes int, undisturbed bool) {
	w.RTT.Sample(took)
	if !undisturbed {
		return
	}
	w.queued = w.Long() && took > w.RTT.Shortest+min(w.RTT.Shortest/8, maxQueue)
	took = max(took, 1)
	w.product = max(w.product, int(float64(bytes)*float64(w.RTT.Shortest)/float64(took)))
	w.age()
}

// age forgets the period before when this one is over.
func (w *Window) age() {
	if w.samples++; w.samples == memory {
		w.before, w.product, w.samples = w.product, 0, 0
	}
}

// Long reports whether the path is one on which the window is paced.
func (w *Window) Long() bool { return w.RTT.Shortest > shortPath }

// startsSlowly reports whether the window doubles each round trip.
func (w *Window) startsSlowly() bool {
	return w.bytes < w.threshold || w.lossless && w.Long() && !w.queued
}

// Acked grows the window after n bytes have arrived.
func (w *Window) Acked(now monotime.Time, n int) {
	most := min(max(Free, 2*w.Product()), Most)
	if w.bytes >= most && w.ceiling == Most {
		w.bytes = most
		return
	}
	switch {
	case w.startsSlowly():
		w.bytes += n
	case w.queued:
	case w.Long() && w.bytes >= w.Product():
		w.bytes += min(n/32, probe*n/w.bytes) // all that the path carried is in use
	case w.lossless || w.Long():
		w.bytes += n / 8
	default:
		w.bytes += max(4096*n/w.bytes, 1)
	}
	if w.ceiling < Most && !now.Before(w.ceilingUntil) {
		w.ceiling = Most
	}
	w.bytes = min(w.bytes, w.ceiling, most)
}

// Lost takes note that something was lost, at most once a round trip. least is the smallest
// window worth having.
func (w *Window) Lost(now monotime.Time, least int) {
	w.lossless = false
	product := w.Product()
	w.ceiling = max(w.bytes*7/8, Ordinary, product+product/16)
	w.ceilingUntil = now.Add(max(believeCeiling, believeCeilingTrips*w.RTT.Smoothed))
	w.threshold = max(w.bytes/2, min(product, w.bytes), least)
	w.bytes = w.threshold
}

// Expired leaves so many bytes of window after a time-out. Before the round trip is known
// a time-out says that the path is long as likely as that something was lost.
func (w *Window) Expired(now monotime.Time, least, left int) {
	if w.RTT.Smoothed != 0 {
		w.Lost(now, least)
	}
	w.sendAt = 0
	w.bytes = left
}

// Pace returns when the next packet may be sent, which may be past. On a long path a window
// goes out over a round trip: a buffer that is shorter than the path would not hold it.
//
// Short paths are not paced. Timers are too coarse there, and the window is small.
func (w *Window) Pace() monotime.Time { return w.sendAt.Add(-burstTime) }

// Sent takes note of n bytes sent. The pace is above that of the window, so that the window
// decides: twice while it doubles, else by a quarter.
func (w *Window) Sent(now monotime.Time, n int) {
	if !w.Long() {
		return
	}
	took := float64(n) * float64(w.spread()) / float64(max(w.bytes, 1))
	w.sendAt = max(w.sendAt, now).Add(monotime.Duration(took))
}

// spread returns the time over which a window is sent.
func (w *Window) spread() monotime.Duration {
	if w.startsSlowly() {
		return w.RTT.Smoothed / 2
	}
	return w.RTT.Smoothed * 4 / 5
}
