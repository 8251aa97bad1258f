// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"verbena/internal/engine/policy"
	"verbena/internal/monotime"
)

// idlePolicy decides whether the background goroutine may leave the inputs to
// the threads that poll. An application may poll now and then and look at memory for
// its peer's WRITE meanwhile, as ib_write_lat does: what comes then is the
// goroutine's to read, as soon as it comes.
//
// It shows after a nap: a packet lies in an input, and no thread polls. While
// the goroutine attends it competes with the polling thread, which is faster by a
// wake-up: if that takes everything the goroutine may nap again.
type idlePolicy struct {
	on     bool          // the goroutine waits for the inputs instead of napping
	missed int           // naps in a row that left something lying
	useful monotime.Time // when the goroutine last read something
}

// slept notes a nap that ended now and whether something was left lying.
func (a *idlePolicy) slept(now monotime.Time, leftLying bool) {
	if !leftLying {
		a.missed = 0
		return
	}
	if a.missed++; a.missed >= policy.MissedNaps {
		*a = idlePolicy{on: true, useful: now}
	}
}

// woke notes a wake-up and whether there was something to read.
func (a *idlePolicy) woke(now monotime.Time, useful bool) {
	switch {
	case useful:
		a.useful = now
	case now.Sub(a.useful) > policy.AttendUseless:
		*a = idlePolicy{}
	}
}

// leftLying reports whether an input has something and no thread polls. A polling thread
// may be busy sending, so it looks twice.
func (g *background) leftLying() bool {
	if !g.readable() {
		return false
	}
	polls := g.polled()
	now := monotime.Now()
	g.sleepUntil(now, now.Add(policy.NapPeek))
	return g.polled() == polls && !g.kicked.Load() && g.readable()
}

// readable reports whether an input has something.
func (g *background) readable() bool {
	n, err := g.look(0)
	if n > 0 && err == nil {
		return true
	}
	for _, s := range *g.eng.sleepers.Load() {
		if s.Waiting() {
			return true
		}
	}
	return false
}
