// SPDX-License-Identifier: BSD-2-Clause

package congestion

import "verbena/internal/monotime"

// retreat tries a smaller window where a vast one loses packets. The buffer of such a path may be
// too short for its queue to show in a round trip. So the window falls to the part that arrived,
// and a little less. If less than half as much is lost then, the losses were of a full queue, and
// the window stays there for a while. Otherwise they were by chance, and the window returns.
type retreat struct {
	left    int     // round trips until the trial ends, 0 if there is none
	window  int     // before the trial
	missing float64 // the part of that window that was lost
	wait    int     // round trips until the next trial
}

// A retreat takes retreatTrips round trips: packets of the first were sent before it began. The
// window falls by the lost part and 1/retreatPart, as the packets that arrived filled the queue.
// After losses by chance the next trial is retreatWait round trips away. A round trip of less than
// leastTried packets begins no trial, and one of three quarters of that decides none: where few are
// sent, chance alone changes the part that is lost.
//
// Source: internal/flows/testdata/buffer.txt. Without the 64th a WRITE at 10 Gb/s has 868 MB/s at
// 100 ms instead of 1,215.
const (
	retreatTrips = 2
	retreatPart  = 64
	retreatWait  = 32
	leastTried   = 1024
)

// roundEnds begins a retreat, or ends it. Whatever else shrinks the window meanwhile ends it, too.
func (d *deliveryRate) roundEnds(w *Window, now monotime.Time, lost, all, packet int) bool {
	r := &d.retreat
	switch {
	case r.left > 1:
		r.left--
	case r.left == 1:
		r.left = 0
		switch {
		case all < leastTried/4*3*packet: // that says nothing
			w.bytes = r.window
		case w.missing >= r.missing/2:
			w.bytes, r.wait = r.window, retreatWait
		default:
			r.wait = believeCeilingTrips
			d.lossless, w.unlucky = false, 0
			d.slow(w, now)
			d.believe(w, now, w.bytes)
		}
	case all < leastTried*packet:
	case r.wait > 0:
		r.wait--
	case vast(w) && !d.startsSlowly(w) && lost*queuedTolerance > all:
		*r = retreat{left: retreatTrips, window: w.bytes, missing: w.missing}
		w.bytes = int(float64(w.bytes) * (1 - w.missing - 1.0/retreatPart))
		d.threshold = min(d.threshold, w.bytes)
		return true
	}
	return false
}
