// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"testing"

	"verbena/internal/engine/policy"
	"verbena/internal/monotime"
)

// An application that polls now and then and looks at memory meanwhile leaves
// packets lying. (Each WRITE of ib_write_lat waited for a whole sleep.)
func TestGoroutineAttendsWhereSleepsLeavePacketsLying(t *testing.T) {
	var a idlePolicy
	a.slept(0, true)
	if a.on {
		t.Error("attends after one sleep: a thread that was held up looks the same")
	}
	a.slept(0, true)
	if !a.on {
		t.Error("sleeps on though packets lay there twice in a row")
	}
}

func TestGoroutineSleepsAgainWhereOthersReadEverything(t *testing.T) {
	a := idlePolicy{on: true, term: policy.MaxAttendTerm}
	now := monotime.Time(0)
	for range 100 { // some are taken by others in between
		now = now.Add(policy.AttendUseless / 4)
		a.woke(now, false)
		now = now.Add(policy.AttendUseless / 4)
		a.woke(now, true)
	}
	if !a.on {
		t.Fatal("sleeps though what comes is often its own to read")
	}
	a.woke(now.Add(policy.AttendUseless+1), false)
	if a.on {
		t.Error("competes with those who poll and take everything")
	}
}

// Where threads share cores the goroutine takes everything before the polling thread has its
// turn, so only a nap shows whether it is needed.
func TestGoroutineNapsAgainToSeeWhetherItIsNeeded(t *testing.T) {
	var a idlePolicy
	now := monotime.Time(1)
	attends := func() (d monotime.Duration) {
		a.slept(now, true)
		a.slept(now, true)
		for begin := now; ; now = now.Add(policy.AttendTerm / 8) {
			if a.woke(now, true); !a.on {
				return now.Sub(begin)
			}
		}
	}
	first := attends()
	if first > 2*policy.AttendTerm {
		t.Errorf("attends for %v at first, want about %v", first, policy.AttendTerm)
	}
	last := first
	for range 20 { // it was needed, each time
		d := attends()
		if d < last {
			t.Errorf("attends for %v, then for %v: the term shrinks though packets are left lying", last, d)
		}
		last = d
	}
	if last < policy.MaxAttendTerm {
		t.Errorf("attends for %v at last, want %v: each nap costs a packet its length", last, policy.MaxAttendTerm)
	}
	now = now.Add(policy.MaxAttendTerm + 1)
	if d := attends(); d != first {
		t.Errorf("attends for %v after a time in which it was not needed, want %v", d, first)
	}
}
