// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"slices"

	"verbena/internal/monotime"
)

// attendance decides whether the background goroutine may leave the sockets to
// those who poll. An application may poll now and then and look at memory for
// its peer's WRITE meanwhile, as ib_write_lat does: what comes then is the
// goroutine's to read, as soon as it comes.
//
// It shows after a sleep: something lies in a socket, and nobody polls. While
// the goroutine attends it competes with whoever polls, who is faster by a
// wake-up: if that one takes everything the goroutine may sleep again.
type attendance struct {
	on     bool          // the goroutine waits for the sockets instead of sleeping
	missed int           // sleeps in a row after which something lay there
	useful monotime.Time // when the goroutine last read something
}

const (
	maxMissedSleeps = 2 // one alone may be a thread that was held up
	// uselessFor is how long somebody else takes everything before the goroutine
	// sleeps again.
	uselessFor = 2 * monotime.Millisecond
	// pollGap is longer than between two polls of a thread that sends in between.
	pollGap = 200 * monotime.Microsecond
)

// slept notes a sleep that ended now and whether something was left lying.
func (a *attendance) slept(now monotime.Time, leftLying bool) {
	if !leftLying {
		a.missed = 0
		return
	}
	if a.missed++; a.missed >= maxMissedSleeps {
		*a = attendance{on: true, useful: now}
	}
}

// woke notes a wake-up and whether there was something to read.
func (a *attendance) woke(now monotime.Time, useful bool) {
	switch {
	case useful:
		a.useful = now
	case now.Sub(a.useful) > uselessFor:
		*a = attendance{}
	}
}

// leftLying reports whether a socket has something that nobody polls for. Who
// polls may be busy sending, so it looks twice.
func (g *background) leftLying() bool {
	if !g.readable() {
		return false
	}
	polls := g.polled()
	now := monotime.Now()
	g.sleepUntil(now, now.Add(pollGap))
	return g.polled() == polls && !g.kicked.Load() && g.readable()
}

// readable reports whether a socket, a ring or a window has something.
func (g *background) readable() bool {
	n, err := g.look(0)
	return n > 0 && err == nil || g.eng.local.waiting() || slices.ContainsFunc(g.eng.links(), (*NTB).waiting)
}
