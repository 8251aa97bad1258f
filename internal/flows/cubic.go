// SPDX-License-Identifier: BSD-2-Clause

package flows

import (
	"math"

	"verbena/internal/monotime"
)

// cubic is the window of TCP CUBIC, in segments, without HyStart++.
//
// Source: RFC 9438.
type cubic struct {
	size, threshold float64
	most            float64 // W_max
	prior           float64 // cwnd_prior
	estimate        float64 // W_est
	k               float64 // seconds
	epoch           monotime.Time
	begun           bool // the epoch has begun
}

// Constants of RFC 9438, sections 4.1, 4.3 and 4.6.
const (
	cubicC     = 0.4
	cubicBeta  = 0.7
	cubicAlpha = 3 * (1 - cubicBeta) / (1 + cubicBeta)
)

// tcpInitial is the first window. Source: RFC 6928.
const tcpInitial = 10

func newCubic() *cubic { return &cubic{size: tcpInitial, threshold: math.Inf(1)} }

func (c *cubic) window() float64 { return c.size }
func (c *cubic) rate() float64   { return 0 }

func (c *cubic) acked(now monotime.Time, e *tcpEnd, a tcpAcked) {
	n := float64(a.segments)
	if c.size < c.threshold {
		c.size += n
		return
	}
	if !c.begun {
		c.begun, c.epoch = true, now
		c.estimate = c.size
		c.k = math.Cbrt(max(c.most-c.size, 0) / cubicC)
	}
	at := func(t float64) float64 {
		d := t - c.k
		return float64(cubicC*float64(d*float64(d*d))) + c.most
	}
	t := now.Sub(c.epoch).Seconds()
	alpha := cubicAlpha
	if c.estimate >= c.prior {
		alpha = 1
	}
	c.estimate += float64(alpha * n / c.size)
	if at(t) < c.estimate {
		c.size = max(c.size, c.estimate)
		return
	}
	target := min(max(at(t+e.smoothed.Seconds()), c.size), 1.5*c.size)
	c.size += float64((target - c.size) / c.size * n)
}

func (c *cubic) lost(monotime.Time, *tcpEnd) {
	c.prior = c.size
	if c.size < c.most { // fast convergence
		c.most = c.size * (1 + cubicBeta) / 2
	} else {
		c.most = c.size
	}
	c.size = max(c.size*cubicBeta, 2)
	c.threshold, c.begun = c.size, false
}

// expired starts slowly again. Source: RFC 5681, section 3.1.
func (c *cubic) expired(*tcpEnd) {
	c.prior, c.most = c.size, c.size
	c.threshold, c.size, c.begun = max(c.size*cubicBeta, 2), 1, false
}
