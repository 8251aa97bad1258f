// SPDX-License-Identifier: BSD-2-Clause

// Package rtt estimates the round trip of a path and says how long to wait for an answer
// before sending again. It has no clock: its user measures, and passes in durations.
//
// Karn's algorithm has two halves. The user's half is that a packet sent more than once
// gives no sample, as nobody can tell which copy was answered. An exception is the first copy of a
// packet that a NAK named: no earlier one has come. This package's half is that the back-off of a
// time-out stays until there is a sample. An answer alone does not end it: on a path longer than
// the first time-out every answer is ambiguous otherwise, and the round trip is never learnt.
//
// Spec: RFC 6298, sections 2, 3 and 5.
package rtt

import "verbena/internal/monotime"

// Bounds of a time-out. RFC 6298 has a second for the first one and as the least, for the
// Internet; here a lost packet on a short path would then cost a thousand round trips. The
// back-off finds a longer path within a few time-outs, which cost a packet or two each: the second
// is as long as the first, as RFC 8985 has it after a probe. The least covers the scheduling delay
// of a peer that is a process.
const (
	First = 10 * monotime.Millisecond
	Least = 4 * monotime.Millisecond
	Most  = monotime.Second
)

// maxBackoff bounds the doubling: it is past Most from Least.
const maxBackoff = 8

// Estimator smooths the round trips of one path. The zero value knows nothing.
type Estimator struct {
	Smoothed  monotime.Duration // 0 until there is a sample
	Variation monotime.Duration
	Shortest  monotime.Duration // of all samples
	backoff   uint8
	doubtful  bool // the only sample may have begun before a time-out
}

// Sample takes in the round trip of a packet that was sent once. It ends the back-off.
//
// A first sample after a time-out may be longer by the time-out: the answer may be to another
// packet, which was repeated. If the next is less than half of it, the estimate begins anew.
func (e *Estimator) Sample(rtt monotime.Duration) {
	rtt = max(rtt, 1)
	late := e.backoff > 0
	e.backoff = 0
	if e.Smoothed == 0 || e.doubtful && rtt < e.Smoothed/2 {
		e.doubtful = late
		e.Smoothed, e.Variation, e.Shortest = rtt, rtt/2, rtt
		return
	}
	e.doubtful = false
	e.Shortest = min(e.Shortest, rtt)
	e.Variation += ((e.Smoothed - rtt).Abs() - e.Variation) / 4
	e.Smoothed += (rtt - e.Smoothed) / 8
}

// Timeout returns how long to wait for an answer. A round trip longer than Most is waited
// for all the same. A sender that doubles its window may fill a queue within a round trip,
// however steady those before were: so a quarter is added at least.
func (e *Estimator) Timeout() monotime.Duration {
	if e.Smoothed == 0 {
		return min(First<<(max(e.backoff, 1)-1), Most)
	}
	d := e.Smoothed + max(4*e.Variation, e.Smoothed/4, Least)
	return min(d<<e.backoff, max(Most, d))
}

// Due returns how long an answer takes that meets neither queue nor loss, with some margin;
// 0 while that is not known.
func (e *Estimator) Due() monotime.Duration { return e.Shortest + e.Shortest/4 }

// BackOff doubles the time-out, until there is a sample.
func (e *Estimator) BackOff() { e.backoff = min(e.backoff+1, maxBackoff) }

// Backoffs returns how many time-outs have come since the last sample, at most maxBackoff.
func (e *Estimator) Backoffs() int { return int(e.backoff) }
