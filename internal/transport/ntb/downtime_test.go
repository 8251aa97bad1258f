// SPDX-License-Identifier: BSD-2-Clause

package ntb

import (
	"testing"

	"verbena/internal/monotime"
)

// A link is given up that has not been up for upTimeout. (A process that was stopped for longer
// found its link not up, as its peer had begun anew. If it saw that before its heartbeat was due,
// it gave the link up at once. Both ends then flushed connections that they had just made.)
func TestDowntimeBeginsWhenItIsSeen(t *testing.T) {
	now := monotime.Time(0).Add(monotime.Second)
	d := downtime{now.Add(upTimeout)}
	look := func(after monotime.Duration, up, over bool) {
		t.Helper()
		now = now.Add(after)
		if got := d.over(now, up); got != over {
			t.Errorf("at %v: over %v, want %v", now, got, over)
		}
	}
	look(upTimeout/2, false, false) // it has to come up
	look(0, true, false)
	look(2*upTimeout, true, false)  // stopped meanwhile
	look(2*upTimeout, false, false) // and again, until the peer had begun anew
	look(upTimeout-1, false, false)
	look(1, false, true)
}
