// SPDX-License-Identifier: BSD-2-Clause

package shm

import (
	"testing"

	"verbena/internal/monotime"
)

// The longer a process has not read its ring, the less often it is looked at: thousands of queue
// pairs may wait for a process that is stopped. Once it goes on, they go on in a moment.
func TestFullRingIsLookedAtEverLessOften(t *testing.T) {
	for _, c := range []struct{ full, least, most monotime.Duration }{
		{monotime.Microsecond, 10 * monotime.Microsecond, 200 * monotime.Microsecond},
		{80 * monotime.Millisecond, 5 * monotime.Millisecond, 20 * monotime.Millisecond},
		{3600 * monotime.Second, 5 * monotime.Millisecond, 100 * monotime.Millisecond},
	} {
		before := monotime.Now()
		o := Out{since: before.Add(-c.full)}
		again := o.LookAgainLocked()
		late := monotime.Now().Sub(before) // this thread may be held up
		if d := again.Sub(before); d < c.least || d > c.most+2*late {
			t.Errorf("full for %v: the next look is %v later, want %v to %v", c.full, d, c.least,
				c.most)
		}
	}
}
