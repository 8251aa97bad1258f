// SPDX-License-Identifier: BSD-2-Clause

package congestion

import "verbena/internal/monotime"

// Parameters of DCQCN. The paper is Zhu et al., Congestion Control for Large-Scale RDMA Deployments
// (SIGCOMM 2015); its parameters are for 40 Gb/s. Those with a name in capitals are ConnectX's
// defaults, which suit slower networks too (NVIDIA DOCA SDK, DCQCN CC Parameters).
const (
	dcqcnGain          = 1.0 / 256                  // g in the paper
	dcqcnAlphaPeriod   = 55 * monotime.Microsecond  // K in the paper
	dcqcnTimer         = 300 * monotime.Microsecond // RPG_TIME_RESET; T in the paper
	dcqcnBytes         = 32767 * 64                 // RPG_BYTE_RESET; B in the paper
	dcqcnThreshold     = 1                          // RPG_THRESHOLD; F in the paper
	dcqcnAdditive      = 5e6 / 8                    // RPG_AI_RATE, bytes a second
	dcqcnHyper         = 50e6 / 8                   // RPG_HAI_RATE
	dcqcnLeast         = 1e6 / 8                    // RPG_MIN_RATE
	dcqcnMostDecrease  = 0.5                        // RPG_MIN_DEC_FAC
	dcqcnMostIncreases = 64                         // acted on at once, after a pause
)

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
	limited      bool
	rate, target float64 // bytes a second: R_C and R_T in the paper
	alpha        float64
	alphaAt      monotime.Time // alpha shrinks then unless there was a mark
	cutAt        monotime.Time // no mark cuts the rate before
	timerAt      monotime.Time
	timers       int // periods since the rate was cut: T in the paper
	counters     int // dcqcnBytes since the rate was cut: BC in the paper
	bytes        int // of the next counter
}

func newDCQCN() *dcqcn {
	return &dcqcn{deliveryRate: *newDeliveryRate(), alpha: 1, alphaAt: monotime.Never}
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

// marked cuts the rate. Source: the paper, section 3.1 (equation 1).
func (d *dcqcn) marked(w *Window, now monotime.Time, _ int) {
	d.decay(now)
	d.alphaAt = now.Add(dcqcnAlphaPeriod)
	if now.Before(d.cutAt) {
		return
	}
	trip := max(w.RTT.Smoothed, 1)
	d.cutAt = now.Add(max(markSlot, trip))
	d.lossless = false // slow start ends
	if !d.limited {
		d.limited, d.rate = true, d.fastest(w)
	}
	if d.loose(w) { // so it was not the rate that data went out at
		d.rate = min(d.rate, d.fastest(w))
	}
	d.target = d.rate
	d.rate = max(d.rate*(1-min(d.alpha/2, dcqcnMostDecrease)), dcqcnLeast)
	d.alpha += float64((1 - d.alpha) * dcqcnGain)
	d.timerAt = now.Add(max(dcqcnTimer, trip))
	d.timers, d.counters, d.bytes = 0, 0, 0
	d.limit(w)
}

// fastest returns the fastest delivery of late, in bytes a second.
func (d *dcqcn) fastest(w *Window) float64 {
	if d.product() > 0 {
		return float64(d.product()) / w.RTT.Shortest.Seconds()
	}
	return float64(w.bytes) / max(w.RTT.Smoothed, shortPath).Seconds()
}

// decay shrinks alpha for the periods without a mark. Source: the paper, equation 2.
func (d *dcqcn) decay(now monotime.Time) {
	for !now.Before(d.alphaAt) && d.alpha > dcqcnGain {
		d.alpha -= float64(d.alpha * dcqcnGain)
		d.alphaAt = d.alphaAt.Add(dcqcnAlphaPeriod)
	}
}

// raise raises the rate for the periods and the bytes that have passed.
func (d *dcqcn) raise(w *Window, now monotime.Time, n int) {
	d.decay(now)
	period := max(dcqcnTimer, w.RTT.Smoothed)
	for i := 0; i < dcqcnMostIncreases && !now.Before(d.timerAt); i++ {
		d.timerAt = d.timerAt.Add(period)
		d.timers++
		d.increase()
	}
	d.timerAt = max(d.timerAt, now)
	for d.bytes += n; d.bytes >= dcqcnBytes; d.bytes -= dcqcnBytes {
		d.counters++
		d.increase()
	}
	if !w.marked && d.loose(w) {
		d.limited = false // but a network that still marks is to cut this rate further
	}
}

// increase raises the rate once. Source: the paper, section 3.1 (fast recovery, additive and hyper
// increase).
func (d *dcqcn) increase() {
	switch {
	case max(d.timers, d.counters) < dcqcnThreshold:
	case min(d.timers, d.counters) > dcqcnThreshold:
		d.target += float64(dcqcnHyper * float64(min(d.timers, d.counters)-dcqcnThreshold))
	case max(d.timers, d.counters) > dcqcnThreshold:
		d.target += dcqcnAdditive
	}
	d.rate = (d.rate + d.target) / 2
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
