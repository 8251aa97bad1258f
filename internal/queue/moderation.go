// SPDX-License-Identifier: BSD-2-Clause

package queue

import "verbena/internal/monotime"

// moderation makes one event of several completions: ibv_modify_cq(3). pushMu of the queue guards
// it.
type moderation struct {
	count  int               // completions per event
	period monotime.Duration // after the first of them the event comes with fewer

	held int           // completions whose event is kept back
	due  monotime.Time // the event comes then, if held is not 0
}

// Moderate makes one event of count completions, or of fewer once period has passed since the
// first. Without either, each makes its own. A queue keeps an event back for completions that it is
// armed for: only solicited ones and errors count where Arm asked for these. An event that was kept
// back comes at once if the new values do not keep it.
func (q *CQ) Moderate(count int, period monotime.Duration) {
	q.pushMu.Lock()
	held := 0
	if q.moderation != nil {
		held = q.moderation.held
	}
	q.moderation = nil
	if count > 1 && period > 0 {
		q.moderation = &moderation{count: count, period: period}
	}
	fire, alarm := false, monotime.Time(0)
	if held > 0 {
		fire, alarm = q.completedLocked(held)
	}
	q.pushMu.Unlock()
	q.announce(fire, alarm)
}

// Expire makes the event whose period has passed.
func (q *CQ) Expire(now monotime.Time) {
	q.pushMu.Lock()
	m := q.moderation
	fire := m != nil && m.held > 0 && m.due <= now
	if fire {
		q.fireLocked()
	}
	q.pushMu.Unlock()
	q.announce(fire, 0)
}

// Due returns when Expire makes an event, Never if none is kept back.
func (q *CQ) Due() monotime.Time {
	q.pushMu.Lock()
	defer q.pushMu.Unlock()
	if m := q.moderation; m != nil && m.held > 0 {
		return m.due
	}
	return monotime.Never
}

// completedLocked notes n completions that the queue is armed for. It reports whether their event
// comes now. If it does not, and they are the first, alarm is when it comes, else 0. The caller
// calls announce.
func (q *CQ) completedLocked(n int) (fire bool, alarm monotime.Time) {
	if m := q.moderation; m != nil {
		first := m.held == 0
		if m.held += n; m.held < m.count {
			if first {
				m.due = q.Now().Add(m.period)
				alarm = m.due
			}
			return false, alarm
		}
	}
	q.fireLocked()
	return true, 0
}

// uncountedLocked returns how many of n completions that Arm finds are not held: the queue was
// armed already when the others came.
func (q *CQ) uncountedLocked(n int) int {
	if q.moderation == nil {
		return n
	}
	return max(n-q.moderation.held, 0)
}

// announce calls what completedLocked asks for. The caller holds no lock.
func (q *CQ) announce(fire bool, alarm monotime.Time) {
	switch {
	case fire && q.OnEvent != nil:
		q.OnEvent()
	case alarm != 0:
		q.OnHeld(alarm)
	}
}
