// SPDX-License-Identifier: BSD-2-Clause

package congestion

import (
	"slices"

	"verbena/internal/monotime"
)

// RoundEnds shrinks the window if the losses of a round trip say that it is too large for the path:
// so much was lost of all. It reports whether it did. A loss of one packet is chance. It is none
// where a short path drops from a full queue, or where few packets were sent and a queue shows.
//
// Where one packet in a hundred is lost whatever is sent, a window that shrinks for each would not
// fill the path. A queue says that the window fills it.
func (w *Window) RoundEnds(now monotime.Time, lost, all, packet, least int) bool {
	tolerated := packet
	if lost > 0 {
		w.rank.lost(w.lossTrip(), lost > tolerated && lost*standingTolerance > all && w.stands())
		if w.overflows() && w.RTT.Smoothed != 0 {
			tolerated = 0
		}
	}
	if w.full = max(w.full-1, 0); lost > 0 && w.rank.queue() {
		w.full = rankTrips
	}
	w.missing = float64(lost) / float64(max(all, 1))
	w.falls(lost, all)
	queues, shrinks := w.queues(), true
	much := w.tooMany(lost, all, packet, queues)
	switch {
	case lost > 0 && w.competes():
		least = max(least, w.bytes/10*7)
	case lost <= tolerated && !much && (lost*LossTolerance <= all || !queues):
		shrinks = false
	case tolerated == 0, much:
	case lost*queuedTolerance > all && queues:
		least = max(least, w.bytes/8*7)
	default:
		shrinks = false
	}
	switch {
	case shrinks:
		w.shrink(now, least)
	case w.algorithm.roundEnds(w, now, lost, all, packet):
		return true
	case lost > 0:
		w.unlucky = min(w.unlucky+1, 2*believeCeilingTrips)
	case w.unlucky > 0:
		w.unlucky--
	}
	return shrinks
}

// losesByChance reports whether the path loses packets whatever the window is: round trips with
// losses outnumber those without, although none has shrunk the window.
func (w *Window) losesByChance() bool { return w.unlucky >= believeCeilingTrips }

// tooMany reports whether more than an eighth was lost. Few packets are judged with those of the
// round trips before, unless the network marks or a queue shows. Where a path loses 5 %, more than
// an eighth of 31 packets is lost by chance in 7 % of round trips. Of 12 packets it is in 12 %.
func (w *Window) tooMany(lost, all, packet int, queues bool) bool {
	least := LeastJudged * packet
	if w.marked || queues {
		w.judgedLost, w.judged, least = 0, 0, 0
	}
	w.judgedLost, w.judged = w.judgedLost+lost, w.judged+all
	much := lost*LossTolerance > max(all, least) ||
		w.judgedLost*LossTolerance > max(w.judged, least)
	if much || w.judged >= least {
		w.judgedLost, w.judged = 0, 0
	}
	return much
}

// LeastJudged is the number of packets from which on they are judged alone.
//
// Source: internal/flows/testdata/fairness.txt. With 128 eight READs drop 1.60 % at 0.1 ms instead
// of 0.37.
const LeastJudged = 64

// standingTolerance bounds the part of a round trip, 1/16, that may be lost by chance while a queue
// stands on a short path. The round trips of a queue that is always full are all alike, so their
// rank says chance. Eight flows stayed at a loss of 11 to 18 % where hosts answered up to 20 µs
// late.
const standingTolerance = 16

// stands reports whether no round trip of late was near the shortest.
func (w *Window) stands() bool { return slices.Min(w.rank.trips[:]) > w.RTT.Shortest*5/4 }

// A round trip that loses more than a quarter, and more packets than by chance, adds excessStep to
// the excess. Each takes one away. At mostExcess the path carries less than it did. Losses of
// packets that were sent before the window shrank do not count, so every second round trip may seem
// to lose little. Two in a row may be of the end of slow start.
//
// Source: internal/flows/testdata/change.txt.
const (
	leastLost  = 16
	lostPart   = 4
	excessStep = 3
	mostExcess = 6
)

// falls lets no more than half of the window be its product, where the path carries less than it
// did. Only a round trip without a loss would show a product, and there is none.
func (w *Window) falls(lost, all int) {
	w.excess = max(w.excess-1, 0)
	if lost < leastLost || lost*lostPart <= all {
		return
	}
	if w.excess = min(w.excess+excessStep, mostExcess); w.excess == mostExcess {
		w.algorithm.carries(w.bytes / 2)
	}
}

// partsOfExcess is the part of the product, 1/32, by which a window may exceed it. It holds what an
// acknowledgement covers that is on its way: on a long path a sender asks for 32 in a window.
const partsOfExcess = 32

// jitterExcess times the jitter is how much longer a round trip may be than the shortest without a
// queue: the mean of two in a row differs by a quarter to a third of the range of all. While a full
// queue loses packets it makes most of the jitter itself, so the jitter counts once.
//
// Source: internal/flows/testdata/fairness.txt. With four in both cases eight READs drop 4.37 % at
// 10 ms. With one in both READ has 15 MB/s instead of 115 on a live link of 1 Gb/s, 1 ms and 5 %.
const jitterExcess = 4

// exceeds reports whether the window is more than the path carried of late, even without the part
// that was lost. Jitter makes the product look small. So does a peer that goes back N, since all
// packets behind a lost one are in vain: a small window towards it would be held for ever.
func (w *Window) exceeds() bool {
	if w.wentBack && w.bytes <= InitialWide {
		return false
	}
	jitter := float64(w.jitter) / float64(max(w.RTT.Shortest, 1))
	if w.full == 0 {
		jitter *= jitterExcess
	}
	return float64(w.bytes)*(1-w.missing) >
		float64(w.algorithm.product())*(1+1.0/partsOfExcess+jitter)
}

// WentBack takes note that the sender has gone back. Nothing counts as outstanding then, so a burst
// could be sent again at once. Towards a foreign peer, which keeps none of it, a buffer that is
// shorter would drop a part of it each time. So the next packet goes at once, and others at the
// pace.
func (w *Window) WentBack(now monotime.Time, foreign bool) {
	w.wentBack = true
	if w.rests = foreign; foreign && w.paceTime != 0 {
		w.sendAt, w.resume = max(w.sendAt, now.Add(w.burst)), 0
	}
}

// jitters takes note of a round trip. The variation of RFC 6298 is of no use here: it begins with
// half of the first round trip.
func (w *Window) jitters(took monotime.Duration) {
	if w.newest != 0 {
		w.jitter += ((took - w.newest).Abs() - w.jitter) / 8
	}
	w.newest = took
}

// queues reports whether the newest round trips show a queue. One alone may be long by jitter.
func (w *Window) queues() bool {
	least := w.base() + w.RTT.Variation
	if !w.exceeds() || w.losesByChance() {
		least += min(w.RTT.Shortest/(2*queueShare), maxQueue)
	}
	return w.Long() && w.RTT.Variation <= w.RTT.Shortest/8 && slices.Min(w.trips[:]) > least
}

// The window shrinks when more than a part of a round trip was lost: 1/8, or with a queue 2 %. The
// goals of goodput.txt have 5 % lost each way, which is a tenth of requests and their answers.
//
// Deviation: RFC 5681, section 3.2, halves the window for every loss.
//
// Source: the second is BBR.LossThresh of draft-ietf-ccwg-bbr.
const (
	LossTolerance   = 8
	queuedTolerance = 50
)

// competes reports whether the newest round trips show a queue that is longer than the path: others
// fill the buffer until something is lost.
func (w *Window) competes() bool {
	return w.Long() && slices.Min(w.trips[:]) > competingTrips*w.base()
}

// competingTrips bounds the round trips without such a queue, in shortest ones. With 2 BBR keeps
// half a percent of the link beside a WRITE.
//
// Source: internal/flows/testdata/beside.txt.
const competingTrips = 4
