// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"verbena/internal/mem"
	"verbena/internal/monotime"
)

// reach is what the writer of a ring knows of the way to the reader's cache, from how
// long its trains take. Two processors of one chip copy through the cache they have in
// common. Those of two chips have none: then writing past the caches is faster by far
// (mem.Stream). A system may move either process from one to the other at any time, and
// a virtual machine is not even told, so it is measured, again and again.
type reach struct {
	long bool // the last train was one that says something: the clock is worth reading
	slow int  // trains in a row that went slowly through the caches
	left int  // trains that still go past them
}

const (
	// reachBytes is what a train has at least that says something.
	reachBytes = 16 << 10
	// reachRate is, in bytes a nanosecond, what one cache in common is never slower
	// than: twice of what two chips do, half of what one does.
	reachRate = 6
	// reachSlow is how many slow trains are no accident.
	reachSlow = 8
	// reachTrains is how many trains go past the caches before they are tried again.
	reachTrains = 1024
)

// far reports whether the next train is better written past the caches.
func (r *reach) far() bool { return r.left > 0 }

// clock returns the time if the next train is likely to be measured, else 0.
func (r *reach) clock() monotime.Time {
	if !r.long {
		return 0
	}
	return monotime.Now()
}

// wrote takes note of a train of n bytes that took d to write, 0 if nobody looked.
func (r *reach) wrote(n int, d monotime.Duration) {
	r.long = mem.Streams() && n >= reachBytes
	switch {
	case !r.long || d == 0:
	case r.left > 0:
		r.left--
	case int64(n) >= reachRate*int64(d):
		r.slow = 0
	default:
		if r.slow++; r.slow == reachSlow {
			r.slow, r.left = 0, reachTrains
		}
	}
}
