// SPDX-License-Identifier: BSD-2-Clause

package queue

import (
	"math/rand/v2"
	"testing"

	"verbena/ib"
	"verbena/internal/monotime"
)

// moderatedCQ is a queue whose clock and alarm are the test's.
type moderatedCQ struct {
	*CQ
	now    monotime.Time
	alarm  monotime.Time // the earliest that was asked for
	events int
}

func newModeratedCQ(count int, period monotime.Duration) *moderatedCQ {
	q := &moderatedCQ{CQ: NewCQ(64), now: 1000, alarm: monotime.Never}
	q.OnEvent = func() { q.events++; q.Len() } // the callback may use the queue
	q.Now = func() monotime.Time { return q.now }
	q.OnHeld = func(due monotime.Time) { q.alarm = min(q.alarm, due); q.Len() }
	q.Moderate(count, period)
	return q
}

// push adds n completions. Solicited ones have the flag.
func (q *moderatedCQ) push(n int, solicited bool) {
	for range n {
		q.Push(&ib.WC{}, solicited)
	}
}

// pass lets time pass, and rings the alarm as the engine's timers do.
func (q *moderatedCQ) pass(d monotime.Duration) {
	for end := q.now.Add(d); ; {
		if q.alarm > end {
			q.now = end
			return
		}
		q.now, q.alarm = q.alarm, monotime.Never
		q.Expire(q.now)
		q.alarm = min(q.alarm, q.Due())
	}
}

func (q *moderatedCQ) want(t *testing.T, events int) {
	t.Helper()
	if q.events != events {
		t.Errorf("%d events, want %d", q.events, events)
	}
	q.events = 0
}

// Spec: ibv_modify_cq(3).
func TestCQModeration(t *testing.T) {
	const any, solicited = false, true
	for _, c := range []struct {
		name string
		do   func(*testing.T, *moderatedCQ)
	}{
		{"the fourth completion makes the event", func(t *testing.T, q *moderatedCQ) {
			q.Arm(any)
			q.push(3, false)
			q.want(t, 0)
			q.push(1, false)
			q.want(t, 1)
			q.push(9, false) // not armed
			q.pass(1000)
			q.want(t, 0)
		}},
		{"the period of the first makes the event", func(t *testing.T, q *moderatedCQ) {
			q.Arm(any)
			q.pass(500) // the period begins with a completion
			q.push(1, false)
			q.pass(99)
			q.push(2, false)
			q.want(t, 0)
			q.pass(1)
			q.want(t, 1)
			q.pass(1000)
			q.want(t, 0)
		}},
		{"a completion polled meanwhile still counts", func(t *testing.T, q *moderatedCQ) {
			q.Arm(any)
			q.push(3, false)
			q.Poll(make([]ib.WC, 3))
			q.push(1, false)
			q.want(t, 1)
		}},
		{"only solicited ones and errors count", func(t *testing.T, q *moderatedCQ) {
			q.Arm(solicited)
			q.push(9, false)
			q.pass(1000)
			q.push(3, true)
			q.want(t, 0)
			q.Push(&ib.WC{Status: ib.WCRemAccessErr}, false)
			q.want(t, 1)
		}},
		{"a solicited one waits no longer than the period", func(t *testing.T, q *moderatedCQ) {
			q.Arm(solicited)
			q.push(1, true)
			q.push(9, false)
			q.want(t, 0)
			q.pass(100)
			q.want(t, 1)
		}},
		{"completions before Arm count", func(t *testing.T, q *moderatedCQ) {
			q.push(3, false)
			q.Arm(any)
			q.want(t, 0)
			q.Arm(any) // does not count them again
			q.want(t, 0)
			q.push(1, false)
			q.want(t, 1)
		}},
		{"enough completions before Arm make the event at once", func(t *testing.T, q *moderatedCQ) {
			q.push(4, false)
			q.Arm(any)
			q.want(t, 1)
		}},
		{"one completion before Arm waits for the period", func(t *testing.T, q *moderatedCQ) {
			q.push(1, true)
			q.pass(1000)
			q.Arm(solicited)
			q.pass(99)
			q.want(t, 0)
			q.pass(1)
			q.want(t, 1)
		}},
		{"the plain ones count once the queue is armed for all", func(t *testing.T, q *moderatedCQ) {
			q.Arm(solicited)
			q.push(1, true)
			q.push(2, false)
			q.Arm(any)
			q.want(t, 0)
			q.push(1, false)
			q.want(t, 1)
		}},
		{"an alarm of an event that has come makes no other early", func(t *testing.T, q *moderatedCQ) {
			q.Arm(any)
			q.push(4, false) // the alarm stays set
			q.want(t, 1)
			q.pass(50)
			q.Poll(make([]ib.WC, 4))
			q.Arm(any)
			q.push(1, false)
			q.pass(99)
			q.want(t, 0)
			q.pass(1)
			q.want(t, 1)
		}},
		{"a smaller count makes a kept event at once", func(t *testing.T, q *moderatedCQ) {
			q.Arm(any)
			q.push(2, false)
			q.Moderate(2, 100)
			q.want(t, 1)
		}},
		{"no moderation makes a kept event at once", func(t *testing.T, q *moderatedCQ) {
			q.Arm(any)
			q.push(1, false)
			q.Moderate(4, 0)
			q.want(t, 1)
			q.Arm(any)
			q.push(1, false)
			q.want(t, 1)
		}},
		{"a larger count keeps it, for the new period", func(t *testing.T, q *moderatedCQ) {
			q.Arm(any)
			q.push(3, false)
			q.Moderate(5, 10)
			q.want(t, 0)
			q.pass(10)
			q.want(t, 1)
		}},
		{"a disarmed queue makes none", func(t *testing.T, q *moderatedCQ) {
			q.Arm(any)
			q.push(1, false)
			q.Disarm()
			q.pass(1000)
			q.want(t, 0)
		}},
		{"purged completions make one all the same", func(t *testing.T, q *moderatedCQ) {
			q.Arm(any)
			q.push(1, false)
			q.Purge(0)
			q.pass(100)
			q.want(t, 1)
		}},
	} {
		t.Run(c.name, func(t *testing.T) { c.do(t, newModeratedCQ(4, 100)) })
	}
}

// TestCQModerationLosesNoEvent does random things. A queue that is armed for a completion that it
// has got makes an event within the period.
func TestCQModerationLosesNoEvent(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 15))
		period := monotime.Duration(rng.IntN(50))
		q := newModeratedCQ(rng.IntN(6), period)
		waits := false          // an event is owed
		var since monotime.Time // since when
		armedAny, armed := false, false
		for i := range 2000 {
			switch rng.IntN(5) {
			case 0:
				all := rng.IntN(2) == 0
				owed := q.CQ.newest(all) > max(q.told, q.Polled())
				q.Arm(!all)
				armed, armedAny = true, armedAny || all
				if owed && !waits {
					waits, since = true, q.now
				}
			case 1:
				q.Poll(make([]ib.WC, rng.IntN(4)))
			case 2:
				q.pass(monotime.Duration(rng.IntN(20)))
			default:
				solicited := rng.IntN(3) == 0
				if q.Len() == q.Cap() {
					continue
				}
				q.push(1, solicited)
				if armed && (armedAny || solicited) && !waits {
					waits, since = true, q.now
				}
			}
			if q.events > 0 {
				if !waits || q.events > 1 {
					t.Fatalf("seed %d, step %d: %d events, none or one is owed", seed, i, q.events)
				}
				waits, armed, armedAny, q.events = false, false, false, 0
			}
			if waits && q.now.Sub(since) > period {
				t.Fatalf("seed %d, step %d: no event for %v", seed, i, q.now.Sub(since))
			}
		}
	}
}

// newest is newestLocked.
func (q *CQ) newest(all bool) uint64 {
	q.pushMu.Lock()
	defer q.pushMu.Unlock()
	if all {
		return q.newestLocked(armedNext)
	}
	return q.newestLocked(armedSolicited)
}
