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

// lineRate is the rate from which the first notification cuts where that of the line is unknown, in
// bytes a second: more than a host sends by UDP. Seven notifications leave 1 Gb/s.
const lineRate = 100e9 / 8

// Reaction is the reaction point of DCQCN: a rate that notifications cut, and that time and bytes
// raise. It needs no acknowledgements. A round trip that is not known is 0.
type Reaction struct {
	rate, target float64 // bytes a second: R_C and R_T in the paper
	alpha        float64
	alphaAt      monotime.Time // alpha shrinks then unless there was a notification
	cutAt        monotime.Time // no notification cuts the rate before
	timerAt      monotime.Time
	timers       int // periods since the rate was cut: T in the paper
	counters     int // dcqcnBytes since the rate was cut: BC in the paper
	bytes        int // of the next counter
}

// NewReaction returns a reaction point that does not limit the rate.
func NewReaction() Reaction {
	return Reaction{rate: lineRate, alpha: 1, alphaAt: monotime.Never}
}

// Pace returns the rate in bytes a second, and how far a sender may be ahead of it.
func (r *Reaction) Pace() (float64, monotime.Duration) { return r.rate, markedBurstTime }

// Free reports whether the rate is no limit.
func (r *Reaction) Free() bool { return r.rate >= lineRate }

// Notified takes a congestion notification.
func (r *Reaction) Notified(now monotime.Time, trip monotime.Duration) {
	if r.notified(now, trip) {
		r.cut(now, trip)
	}
}

// notified takes note of a notification and reports whether it is to cut the rate.
func (r *Reaction) notified(now monotime.Time, trip monotime.Duration) bool {
	r.decay(now)
	r.alphaAt = now.Add(dcqcnAlphaPeriod)
	if now.Before(r.cutAt) {
		return false
	}
	r.cutAt = now.Add(max(markSlot, trip))
	return true
}

// cut cuts the rate. Source: the paper, section 3.1 (equation 1).
func (r *Reaction) cut(now monotime.Time, trip monotime.Duration) {
	r.target = r.rate
	r.rate = max(r.rate*(1-min(r.alpha/2, dcqcnMostDecrease)), dcqcnLeast)
	r.alpha += float64((1 - r.alpha) * dcqcnGain)
	r.timerAt = now.Add(max(dcqcnTimer, trip))
	r.timers, r.counters, r.bytes = 0, 0, 0
}

// decay shrinks alpha for the periods without a notification. Source: the paper, equation 2.
func (r *Reaction) decay(now monotime.Time) {
	for !now.Before(r.alphaAt) && r.alpha > dcqcnGain {
		r.alpha -= float64(r.alpha * dcqcnGain)
		r.alphaAt = r.alphaAt.Add(dcqcnAlphaPeriod)
	}
}

// Sent raises the rate for the periods that have passed, and for n bytes.
func (r *Reaction) Sent(now monotime.Time, trip monotime.Duration, n int) {
	r.decay(now)
	period := max(dcqcnTimer, trip)
	for i := 0; i < dcqcnMostIncreases && !now.Before(r.timerAt); i++ {
		r.timerAt = r.timerAt.Add(period)
		r.timers++
		r.increase()
	}
	r.timerAt = max(r.timerAt, now)
	for r.bytes += n; r.bytes >= dcqcnBytes; r.bytes -= dcqcnBytes {
		r.counters++
		r.increase()
	}
}

// increase raises the rate once. Source: the paper, section 3.1 (fast recovery, additive and hyper
// increase).
func (r *Reaction) increase() {
	switch {
	case max(r.timers, r.counters) < dcqcnThreshold:
	case min(r.timers, r.counters) > dcqcnThreshold:
		r.target += float64(dcqcnHyper * float64(min(r.timers, r.counters)-dcqcnThreshold))
	case max(r.timers, r.counters) > dcqcnThreshold:
		r.target += dcqcnAdditive
	}
	r.rate = (r.rate + r.target) / 2
}
