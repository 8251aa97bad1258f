// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"verbena/internal/engine/policy"
	"verbena/internal/monotime"
)

// idlePolicy decides whether the background goroutine may leave the inputs to the threads that
// poll. An application may poll now and then and look at memory for its peer's WRITE meanwhile, as
// ib_write_lat does. Then the goroutine has to read each packet as soon as it comes.
//
// A nap shows that: a packet lies in an input, and the process has computed meanwhile without a
// poll. A process that waits for a core has not computed, and polls when it gets one. While the
// goroutine attends it competes with the polling thread, which is faster by a wake-up. If that
// thread takes everything the goroutine may nap again. Where threads share cores the goroutine is
// faster, as a thread that wakes up comes first. So it also naps again from time to time, to see
// whether packets are still left lying.
type idlePolicy struct {
	on      bool              // the goroutine waits for the inputs instead of napping
	missed  int               // naps in a row that left something lying
	useful  monotime.Time     // when the goroutine last read something
	changed monotime.Time     // when on changed
	term    monotime.Duration // how long on is to last
}

// slept notes a nap that ended now and whether something was left lying.
func (a *idlePolicy) slept(now monotime.Time, leftLying bool) {
	if !leftLying {
		a.missed = 0
		return
	}
	if a.missed++; a.missed < policy.MissedNaps {
		return
	}
	term := policy.AttendTerm
	if a.term != 0 && now.Sub(a.changed) < a.term { // so soon again
		term = min(2*a.term, policy.MaxAttendTerm)
	}
	*a = idlePolicy{on: true, useful: now, changed: now, term: term}
}

// woke notes a wake-up and whether there was something to read.
func (a *idlePolicy) woke(now monotime.Time, useful bool) {
	switch {
	case !a.on:
	case !useful && now.Sub(a.useful) > policy.AttendUseless:
		*a = idlePolicy{}
	case now.Sub(a.changed) > a.term:
		*a = idlePolicy{changed: now, term: a.term}
	case useful:
		a.useful = now
	}
}

// leftLying reports whether an input holds something that no thread reads, and no thread polls: a
// polling thread may be busy sending.
func (g *background) leftLying() bool {
	polls := g.polled()
	now := monotime.Now()
	g.sleepUntil(now, now.Add(policy.NapPeek))
	return g.polled() == polls && !g.kicked.Load() && g.readable()
}

// readable reports whether an input has something. It calls the services that are ready.
func (g *background) readable() bool {
	if a := &g.eng.arrival; !a.asleep() {
		a.silence() // rung while a thread polled
	}
	g.listen(true)
	n, err := g.look(0)
	if n > 0 && err == nil {
		return true
	}
	for _, r := range *g.eng.rings.Load() {
		if r.Waiting() {
			return true
		}
	}
	for _, s := range *g.eng.sleepers.Load() {
		if s.Waiting() {
			return true
		}
	}
	return false
}
