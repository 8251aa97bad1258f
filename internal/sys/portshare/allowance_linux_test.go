// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"testing"

	"verbena/internal/monotime"
)

// A flood has a quarter of a processor, also where its sender pauses so that the keeper finds
// nothing to read now and then.
func TestFloodsHaveAQuarterOfAProcessor(t *testing.T) {
	const long = 10 * monotime.Second
	for _, c := range []struct{ busy, idle monotime.Duration }{
		{100 * monotime.Microsecond, 0},
		{900 * monotime.Microsecond, 100 * monotime.Microsecond},
		{7 * monotime.Millisecond, 1},
		{monotime.Millisecond / 2, monotime.Millisecond / 2},
	} {
		a := allowance{left: maxAllowance}
		var now monotime.Time
		var spent, longest monotime.Duration
		for now.Sub(0) < long {
			start := now
			now = now.Add(c.busy)
			spent += c.busy
			pause := a.spend(start, now)
			longest = max(longest, pause)
			now = now.Add(max(pause, c.idle))
		}
		if limit := maxAllowance + overdraft + c.busy + long/refill; spent > limit {
			t.Errorf("%v busy, %v idle: spent %v of %v, want at most %v",
				c.busy, c.idle, spent, long, limit)
		}
		if limit := refill * (overdraft + c.busy); longest > limit {
			t.Errorf("%v busy, %v idle: a pause of %v, want at most %v",
				c.busy, c.idle, longest, limit)
		}
	}
}

// A keeper that was stopped for long pauses no longer than after a flood.
func TestStoppedKeeperPausesBriefly(t *testing.T) {
	a := allowance{left: maxAllowance}
	stopped := monotime.Time(10 * monotime.Second)
	if pause := a.spend(0, stopped); pause > refill*maxOverdraft {
		t.Errorf("a pause of %v, want at most %v", pause, refill*maxOverdraft)
	}
}

// Peers that connect at once wait for no pause, and neither do MADs that come slowly.
func TestFewDatagramsWaitForNoPause(t *testing.T) {
	a := allowance{left: maxAllowance}
	if pause := a.spend(0, monotime.Time(maxAllowance)); pause != 0 {
		t.Errorf("a pause of %v after %v", pause, maxAllowance)
	}
	now := monotime.Time(maxAllowance)
	for range 100_000 {
		start := now.Add(refill * monotime.Microsecond)
		now = start.Add(monotime.Microsecond)
		if pause := a.spend(start, now); pause != 0 {
			t.Fatalf("a pause of %v at %v", pause, now)
		}
	}
}
