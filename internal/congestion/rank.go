// SPDX-License-Identifier: BSD-2-Clause

package congestion

import "verbena/internal/monotime"

// lossRank tells losses in a full queue from losses by chance on a short path. A queue drops
// packets while the round trip is longest, chance at any time. So the rank among the newest round
// trips decides, and not their length: a flow that began in a queue of others takes its round trip
// for that of the path.
type lossRank struct {
	trips  [rankTrips]monotime.Duration // the newest, 0 for those yet to come
	oldest int                          // of trips
	at     monotime.Time                // of the newest
	mean   float64                      // of late: 1 is the longest, and 1/2 is expected by chance
}

// A loss counts a 16th of the mean. By chance that lies between 0.4 and 0.6, two standard
// deviations from the half. From queueRank on the path drops from its queue.
//
// Source: internal/flows/testdata/fairness.txt, round trips of 0.1 ms.
const (
	rankTrips = 16
	rankGain  = 1.0 / 16
	queueRank = 0.7
)

// sample takes in the round trip of a packet that was sent after the sample before. A sender may
// measure each of its packets: sixteen of those are no round trip.
func (r *lossRank) sample(now monotime.Time, took monotime.Duration) {
	if now.Sub(r.at) < took {
		return
	}
	r.at = now
	r.trips[r.oldest] = took
	r.oldest = (r.oldest + 1) % rankTrips
}

// newest returns the newest round trip taken in.
func (r *lossRank) newest() monotime.Duration {
	return r.trips[(r.oldest+rankTrips-1)%rankTrips]
}

// lost takes note of a loss that a round trip showed. A queue stands if none of late was short.
func (r *lossRank) lost(newest monotime.Duration, stands bool) {
	known, shorter := 0, 0 // halves for those as long, as newest itself
	for _, t := range r.trips {
		switch {
		case t == 0:
			continue
		case t < newest:
			shorter += 2
		case t == newest:
			shorter++
		}
		known++
	}
	rank := 1.0
	if known > 1 && !stands {
		rank = float64(shorter-1) / float64(2*(known-1))
	}
	r.mean += float64((rank - r.mean) * rankGain)
}

// lostNewest takes note of a loss that the newest round trip showed.
func (r *lossRank) lostNewest() { r.lost(r.newest(), false) }

// queue reports whether losses are of a full queue.
func (r *lossRank) queue() bool { return r.mean >= queueRank }
