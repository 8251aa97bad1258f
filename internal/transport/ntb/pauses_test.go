// SPDX-License-Identifier: BSD-2-Clause

package ntb

import (
	"testing"

	"verbena/internal/monotime"
)

// A link without a doorbell is looked at soon after a message: its answer may bring the next one.
// An idle link is looked at seldom. (An end that waited for its first peer took a whole core.)
func TestPausesBetweenLooksAtALink(t *testing.T) {
	var p pauses
	for heard := range uint64(3) {
		first := p.next(heard)
		if heard > 0 && first > 50*monotime.Microsecond {
			t.Errorf("%v after message %d: the next message waits", first, heard)
		}
		looks, last := 1, first
		for total := first; total < monotime.Second && looks < 10000; looks++ {
			last = p.next(heard)
			total += last
		}
		if looks > 2000 {
			t.Errorf("%d looks in the second after message %d: an idle link takes a processor",
				looks, heard)
		}
		if last > 5*monotime.Millisecond {
			t.Errorf("%v a second after message %d: the next message waits", last, heard)
		}
	}
}
