// SPDX-License-Identifier: BSD-2-Clause

package congestion

import "verbena/internal/monotime"

// train estimates the rate of a path from the first window of a sender. Its packets leave at once.
// The slowest link of the path spreads them, and their acknowledgements come at its rate. A network
// or a host that delivers in batches makes the estimate too high, one with jitter too low. So
// nothing but the speed of slow start depends on it.
//
// Source: Dovrolis et al., What Do Packet Dispersion Techniques Measure? (INFOCOM 2001).
type train struct {
	bytes  int               // sent before the first acknowledgement
	sentAt monotime.Time     // the first packet
	spread monotime.Duration // from the first packet to the last, as sent
	again  monotime.Time     // when a packet was first repeated, 0 before
	first  monotime.Time     // acknowledgement
	newest monotime.Time     // acknowledgement
	acked  int               // bytes by the first acknowledgement, and by later ones
	later  int
	over   bool
	rate   float64 // bytes a second, 0 if it is not known
}

// leastTrain is the least that the acknowledgements after the first are to cover, in bytes: two
// packets of the largest path MTU.
const leastTrain = 8 << 10

// leastTrains bounds an estimate from below, in trains. A smaller one is of a path that holds
// little, or of hosts that let acknowledgements wait.
const leastTrains = 4

// sent takes note of n bytes sent.
func (t *train) sent(now monotime.Time, n int) {
	if t.over || t.first != 0 {
		return
	}
	if t.bytes == 0 {
		t.sentAt = now
	}
	t.bytes += n
	t.spread = now.Sub(t.sentAt)
}

// repeated takes note that a packet was sent again.
func (t *train) repeated(now monotime.Time) {
	if t.again == 0 {
		t.again = now
	}
}

// arrived takes note that n bytes were acknowledged. Acknowledgements that may answer a repeated
// packet come later than at the rate of the path. Those before them count.
func (t *train) arrived(now monotime.Time, n int) {
	switch {
	case t.over || n == 0:
		return
	case t.first == 0:
		t.first, t.acked = now, n
	case t.again != 0 && now.Sub(t.first) >= t.again.Sub(t.sentAt)*7/8: // jitter
		t.acked = t.bytes
	default:
		t.newest, t.acked, t.later = now, t.acked+n, t.later+n
	}
	if t.acked < t.bytes {
		return
	}
	t.over = true
	took := t.newest.Sub(t.first)
	if t.later >= leastTrain && took > 2*t.spread {
		t.rate = float64(t.later) / took.Seconds()
	}
}

// lost ends a train that something was lost from.
func (t *train) lost() { t.over = true }
