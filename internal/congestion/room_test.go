// SPDX-License-Identifier: BSD-2-Clause

package congestion

import (
	"testing"

	"verbena/internal/monotime"
)

// Room permits as many packets as Pace does one by one.
func TestRoom(t *testing.T) {
	const bytes, most = 1024, 40
	now := 5 * monotime.Time(monotime.Millisecond)
	for _, c := range []struct {
		name             string
		sendAt           monotime.Time
		time, burst      monotime.Duration
		paceBytes, least int
	}{
		{"not paced", 0, 0, 0, 0, most},
		{"burst ahead", 0, monotime.Millisecond, 500 * monotime.Microsecond, 32 << 10, 10},
		{"in the past, no burst", 0, monotime.Millisecond, 0, 32 << 10, 1},
		{"later", now + 1, monotime.Millisecond, 0, 32 << 10, 0},
		{"fast", now, monotime.Millisecond, 100 * monotime.Microsecond, 64 << 20, most},
	} {
		w := Window{sendAt: c.sendAt, paceTime: c.time, paceBytes: c.paceBytes, burst: c.burst,
			algorithm: newDeliveryRate()}
		got, n := w.Room(now, bytes, most), 0
		for one := w; n < most && !now.Before(one.Pace(now)); n++ {
			one.Sent(now, bytes)
		}
		if got != n || got < c.least {
			t.Errorf("%s: room for %d packets, one by one %d, at least %d", c.name, got, n, c.least)
		}
	}
}

// After going back nothing goes in a burst. A sender that is ahead of the pace rests until a batch
// may go.
func TestNoBurstAfterGoingBack(t *testing.T) {
	const packet = 1024
	w := Window{paceTime: monotime.Millisecond, paceBytes: 128 << 10, burst: burstTime,
		algorithm: newDeliveryRate()}
	now := monotime.Time(monotime.Second)
	atOnce := func() (n int) {
		for ; !now.Before(w.Pace(now)); n++ {
			w.Sent(now, packet)
		}
		return n
	}
	if n := atOnce(); n < 64 {
		t.Errorf("%d packets at once, want a burst", n)
	}
	now += monotime.Time(monotime.Second)
	w.WentBack(now, true)
	if n := atOnce(); n != 1 {
		t.Errorf("%d packets at once after going back", n)
	}
	now = w.Pace(now)
	if n := atOnce(); n < 16 || n > 17 {
		t.Errorf("%d packets after a rest, want a quarter of a burst", n)
	}
	now = w.Pace(now) - 1
	if n := atOnce(); n != 0 {
		t.Errorf("%d packets while the sender rests", n)
	}
}

// Going back holds nothing on a path that is not paced, whatever marks make of a burst.
func TestGoingBackWithoutAPace(t *testing.T) {
	now := monotime.Time(monotime.Second)
	w := Window{burst: burstTime, algorithm: newDeliveryRate()}
	w.WentBack(now, true)
	w.burst = markedBurstTime
	if at := w.Pace(now); now.Before(at) {
		t.Errorf("held for %v", at.Sub(now))
	}
}
