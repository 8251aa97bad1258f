// SPDX-License-Identifier: BSD-2-Clause

package core

import (
	"time"

	"verbena/internal/device"
	"verbena/internal/engine"
	"verbena/internal/monotime"
)

// Moderate makes one event of count completions, or of fewer once period has passed since the
// first: ibv_modify_cq(3) with IBV_CQ_ATTR_MODERATE. With a count of 0 or 1, or without a period,
// each completion makes an event.
func (q *CQ) Moderate(count int, period time.Duration) (err error) {
	defer func() { q.ctx.logCall("ibv_modify_cq", err, "count", count, "period", period) }()
	if err := device.CheckRange("count", count, 0, device.CQModeration.MaxCount); err != nil {
		return err
	}
	most := time.Duration(device.CQModeration.MaxPeriod) * time.Microsecond
	if period < 0 || period > most {
		return invalid("period", "%v: must be 0 to %v", period, most)
	}
	if err := q.alive(); err != nil {
		return err
	}
	q.moderated.Do(q.openAlarm)
	if q.alarm == nil {
		return invalid("CQ", "was destroyed")
	}
	q.ring.Moderate(count, period)
	return nil
}

// openAlarm makes the alarm of events that are kept back.
func (q *CQ) openAlarm() {
	a := engine.NewMovingAlarm(q.expire, q.expireMoved)
	q.alarm = &a
	q.ring.Now = monotime.Now
	q.ring.OnHeld = func(due monotime.Time) { q.ctx.eng.Arm(q.alarm, due) }
}

func (q *CQ) expire(now monotime.Time) {
	q.ring.Expire(now)
	if due := q.ring.Due(); due != monotime.Never {
		q.ctx.eng.Arm(q.alarm, due)
	}
}

// expireMoved returns when the next event is to come. Most events come before their period ends.
func (q *CQ) expireMoved(now monotime.Time) (to monotime.Time, ok bool) {
	to = q.ring.Due()
	return to, to > now
}

// closeAlarm ends moderation of a queue that is destroyed.
func (q *CQ) closeAlarm() {
	q.moderated.Do(func() {}) // a Moderate from now on makes no alarm
	if q.alarm != nil {
		q.ctx.eng.EndAlarm(q.alarm)
	}
}
