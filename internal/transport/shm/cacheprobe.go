// SPDX-License-Identifier: BSD-2-Clause

package shm

import (
	"verbena/internal/engine/policy"
	"verbena/internal/mem"
	"verbena/internal/monotime"
)

// cacheProbe measures how far the reader's cache is from the writer of a ring, by how long its
// bursts take. Two processors of one chip copy through the cache they have in common. Those of two
// chips have none: then writing past the caches is faster by far (mem.Stream). A system may move
// either process from one to the other at any time, and does not tell a virtual machine. So it is
// measured again and again.
type cacheProbe struct {
	long bool // the last burst was one that says something: the clock is worth reading
	slow int  // bursts in a row that went slowly through the caches
	left int  // bursts that still go past them
}

// bypassCache reports whether the next burst is better written past the caches.
func (r *cacheProbe) bypassCache() bool { return r.left > 0 }

// clock returns the time if the next burst is likely to be measured, else 0.
func (r *cacheProbe) clock() monotime.Time {
	if !r.long {
		return 0
	}
	return monotime.Now()
}

// wrote takes note of a burst of n bytes that took d to write, 0 if nobody looked.
func (r *cacheProbe) wrote(n int, d monotime.Duration) {
	r.long = mem.Streams() && n >= policy.BypassBytes
	switch {
	case !r.long || d == 0:
	case r.left > 0:
		r.left--
	case int64(n) >= policy.BypassRate*int64(d):
		r.slow = 0
	default:
		if r.slow++; r.slow == policy.BypassSlow {
			r.slow, r.left = 0, policy.BypassBursts
		}
	}
}
