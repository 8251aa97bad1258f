// SPDX-License-Identifier: BSD-2-Clause

package congestion

import "verbena/internal/monotime"

// wait estimates for how long acknowledgements wait at a host that sleeps, and then handles all
// that have come. No queue of the network causes that delay: those that a link carries come one
// after the other.
//
// Source: BBR adds bytes that are acknowledged together to its window, too (draft-ietf-ccwg-bbr,
// extra_acked).
type wait struct {
	at     monotime.Time     // of the newest acknowledgements
	gap    monotime.Duration // before them
	events int               // acknowledgements at that time
	bytes  int               // that they cover
	// the longest gap and the most bytes of late, where several came at one time
	longest  monotime.Duration
	together int
	shrinkAt monotime.Time
}

// leastTogether is from how many acknowledgements on a host has slept. Two may be of one packet.
const leastTogether = 3

// waitMemory is the part, 1/8, that is forgotten of a wait in a round trip: two thirds in eight.
//
// Source: BBR.ExtraAckedFilterLen of draft-ietf-ccwg-bbr (10 round trips). With 4 flows take the
// same time to fill a path with jitter, and drop from half to three times as much there.
const waitMemory = 8

// arrived takes note that n bytes were acknowledged. At most half of a round trip counts as a
// wait: a gap may also be of a sender that had nothing to send.
func (t *wait) arrived(now monotime.Time, n int, trip monotime.Duration) {
	if n == 0 {
		return
	}
	if now != t.at {
		t.gap, t.at, t.events, t.bytes = now.Sub(t.at), now, 0, 0
		if !now.Before(t.shrinkAt) {
			t.longest -= t.longest / waitMemory
			t.together -= t.together / waitMemory
			t.shrinkAt = now.Add(trip)
		}
	}
	t.events, t.bytes = t.events+1, t.bytes+n
	if t.events >= leastTogether {
		t.longest = max(t.longest, min(t.gap, trip/2))
		t.together = max(t.together, t.bytes)
	}
}

// base returns the round trip of a packet that no queue of the network delays.
func (w *Window) base() monotime.Duration { return w.RTT.Shortest + w.wait.longest }
