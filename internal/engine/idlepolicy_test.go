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
	a := idlePolicy{on: true}
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
