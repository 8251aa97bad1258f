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
		w := Window{sendAt: c.sendAt, paceTime: c.time, paceBytes: c.paceBytes, burst: c.burst}
		got, n := w.Room(now, bytes, most), 0
		for one := w; n < most && !now.Before(one.Pace()); n++ {
			one.Sent(now, bytes)
		}
		if got != n || got < c.least {
			t.Errorf("%s: room for %d packets, one by one %d, at least %d", c.name, got, n, c.least)
		}
	}
}
