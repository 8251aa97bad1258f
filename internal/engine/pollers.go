// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"verbena/internal/engine/policy"
	"verbena/internal/monotime"
)

// pollers decides whether threads of the application poll, and for how long the background
// goroutine naps meanwhile.
//
// Where more threads poll than there are cores, each polls once and then waits for the others. So a
// thread counts as polling until it has not polled for policy.PollersGone, or announces that it
// goes to sleep (background.kick). In a process that waits for cores a goroutine that wakes up gets
// no packet sooner, and takes the core from another process. So its naps become longer. A process
// whose threads sleep between polls uses as little processor time, but does not wait for cores.
// There the goroutine runs the timers, and its naps stay short.
type pollers struct {
	counted uint64            // polls when a thread last polled
	last    monotime.Time     // when that was; 0: no thread polls
	waited  monotime.Time     // when the process last waited for a core; 0: never
	nap     monotime.Duration // the next nap; 0: the shortest
	naps    uint              // calls of looks
}

// there reports whether a thread polls. left is set if a thread has stopped polling since the last
// call, attended if a thread that sleeps has woken up and read.
func (p *pollers) there(now monotime.Time, polls uint64, left, attended bool) bool {
	switch {
	case left:
		p.last, p.nap = 0, 0
	case attended:
		p.last = 0
	case polls != p.counted:
		p.last = now
	case p.last != 0 && now.Sub(p.last) > policy.PollersGone:
		p.last, p.nap = 0, 0
	}
	p.counted = polls
	return p.last != 0
}

// next returns the length of the next nap; shortest is that of a process that has a core.
func (p *pollers) next(shortest monotime.Duration) monotime.Duration {
	p.nap = max(p.nap, shortest)
	return p.nap
}

// slept notes a nap that lasted for d until now: the processor time that the process used in it,
// and whether a thread had to leave its core to another thread. It reports whether the process had
// a core.
func (p *pollers) slept(now monotime.Time, d, used monotime.Duration, preempted bool) (ran bool) {
	if preempted {
		p.waited = now
	}
	ran = used >= d-d/4
	if ran || !p.waits(now) {
		p.nap = 0
		return ran
	}
	p.nap = min(2*p.nap, policy.MaxNap)
	return false
}

// waits reports whether the process has just waited for a core.
func (p *pollers) waits(now monotime.Time) bool {
	return p.waited != 0 && now.Sub(p.waited) <= policy.PollersGone
}

// looks reports whether the next nap beside threads that sleep is to end with a call of slept. The
// kernel adds up the times of all threads for that: some 200 µs in a process of a thousand.
func (p *pollers) looks(now monotime.Time) bool {
	p.naps++
	return p.waits(now) || p.naps%napsPerLook == 0
}

// napsPerLook is the number of naps for a call of slept in a process that does not wait for cores.
const napsPerLook = 8
