// SPDX-License-Identifier: BSD-2-Clause

package flows

import (
	"verbena/internal/monotime"
)

// bbr is the first version of BBR, in segments. Its window during the recovery from a loss is that
// of other times: the draft has packets conserved for one round trip.
//
// Source: draft-cardwell-iccrg-bbr-congestion-control-00.
type bbr struct {
	state     bbrState
	rates     [bbrRateRounds]float64 // the largest of each round trip, newest at round
	round     int
	roundEnds int64 // deliveries at its end
	shortest  monotime.Duration
	shortAt   monotime.Time
	full      float64 // the rate when the pipe was last not full
	fullCount int
	phase     int
	phaseAt   monotime.Time
	leave     monotime.Time // the end of probing for the round trip
	collapsed bool          // by a time-out
}

type bbrState uint8

const (
	bbrStartup  bbrState = iota // doubles each round trip until the rate grows no more
	bbrDrain                    // until the queue of startup is gone
	bbrProbeBW                  // phases around the rate
	bbrProbeRTT                 // four segments for 200 ms
)

// Constants of the draft's section 4: kHighGain is 2/ln 2.
const (
	bbrRateRounds   = 10
	bbrHighGain     = 2.885
	bbrRTTMemory    = 10 * monotime.Second
	bbrProbeRTTTime = 200 * monotime.Millisecond
	bbrLeast        = 4 // segments
)

var bbrPhases = [...]float64{1.25, 0.75, 1, 1, 1, 1, 1, 1}

func newBBR() *bbr { return &bbr{phase: 2} }

func (b *bbr) bandwidth() (most float64) {
	for _, r := range b.rates {
		most = max(most, r)
	}
	return most
}

// product returns the product of bandwidth and delay.
func (b *bbr) product() float64 { return b.bandwidth() * b.shortest.Seconds() }

func (b *bbr) pacingGain() float64 {
	switch b.state {
	case bbrStartup:
		return bbrHighGain
	case bbrDrain:
		return 1 / bbrHighGain
	case bbrProbeBW:
		return bbrPhases[b.phase]
	}
	return 1
}

func (b *bbr) rate() float64 {
	if r := b.bandwidth(); r > 0 {
		return b.pacingGain() * r
	}
	return 0
}

func (b *bbr) window() float64 {
	switch {
	case b.collapsed:
		return 1
	case b.shortest == 0:
		return tcpInitial
	case b.state == bbrProbeRTT:
		return bbrLeast
	case b.state == bbrProbeBW:
		return max(float64(2*b.product())+3, bbrLeast)
	}
	return max(float64(bbrHighGain*b.product())+3, tcpInitial)
}

func (b *bbr) acked(now monotime.Time, e *tcpEnd, a tcpAcked) {
	b.collapsed = false
	if e.delivered >= b.roundEnds {
		b.roundEnds = e.delivered + int64(e.flying)
		b.round = (b.round + 1) % bbrRateRounds
		b.rates[b.round] = 0
		b.checkFull()
	}
	b.rates[b.round] = max(b.rates[b.round], a.rate)
	old := now.Sub(b.shortAt) > bbrRTTMemory
	if a.trip > 0 && (b.shortest == 0 || a.trip <= b.shortest || old) {
		b.shortest, b.shortAt = a.trip, now
	}
	switch {
	case b.state == bbrDrain && float64(e.flying) <= b.product():
		b.enterProbeBW(now)
	case b.state == bbrProbeBW && b.phaseEnds(now, e):
		b.phase, b.phaseAt = (b.phase+1)%len(bbrPhases), now
	case b.state == bbrProbeRTT && e.flying <= bbrLeast && b.leave == 0:
		b.leave = now.Add(max(bbrProbeRTTTime, e.smoothed))
	case b.state == bbrProbeRTT && b.leave != 0 && now >= b.leave:
		b.shortAt = now
		if b.state = bbrStartup; b.fullCount >= 3 {
			b.enterProbeBW(now)
		}
	}
	if old && b.state != bbrProbeRTT {
		b.state, b.leave = bbrProbeRTT, 0
	}
}

// checkFull ends startup after three round trips in which the rate grew by less than a quarter.
func (b *bbr) checkFull() {
	if b.state != bbrStartup {
		return
	}
	if r := b.bandwidth(); r >= b.full*1.25 {
		b.full, b.fullCount = r, 0
		return
	}
	if b.fullCount++; b.fullCount >= 3 {
		b.state = bbrDrain
	}
}

// enterProbeBW begins with a phase of the rate itself, so that flows do not need random numbers.
func (b *bbr) enterProbeBW(now monotime.Time) {
	b.state, b.phase, b.phaseAt = bbrProbeBW, 2, now
}

func (b *bbr) phaseEnds(now monotime.Time, e *tcpEnd) bool {
	over := now.Sub(b.phaseAt) > b.shortest
	switch gain := bbrPhases[b.phase]; {
	case gain > 1:
		return over && float64(e.flying) >= gain*b.product()
	case gain < 1:
		return over || float64(e.flying) <= b.product()
	}
	return over
}

func (b *bbr) lost(monotime.Time, *tcpEnd) {}

func (b *bbr) expired(*tcpEnd) { b.collapsed = true }
