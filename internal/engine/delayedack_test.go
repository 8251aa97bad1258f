// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"testing"

	"verbena/internal/engine/policy"
)

// A peer that waits for the acknowledgement before it goes on lets the grace
// run out every time. It gets its acknowledgements with the answers then.
func TestGraceThatRunsOutIsGivenUp(t *testing.T) {
	var l DelayedAck
	for range policy.AckMisses - 1 {
		l.expire()
	}
	l.waiting = true
	if l.NotePost(); !l.waiting {
		t.Error("given up before it ran out often enough: one delay may be chance")
	}
	l.expire()
	if l.NotePost(); l.waiting {
		t.Errorf("the acknowledgement still waits after the grace ran out %d times in a row", policy.AckMisses)
	}
}

// A grace that was given up is tried again, ever more rarely.
func TestGraceIsTriedAgainEverMoreRarely(t *testing.T) {
	var l DelayedAck
	last := 0
	for last < policy.MaxTogether {
		for range policy.AckMisses {
			l.expire()
		}
		if l.together <= last || l.together > policy.MaxTogether {
			t.Fatalf("given up for %d messages after %d", l.together, last)
		}
		last = l.together
	}
}
