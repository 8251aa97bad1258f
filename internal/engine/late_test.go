package engine

import "testing"

// A peer that waits for the acknowledgement before it goes on lets the grace
// run out every time. It gets its acknowledgements with the answers then.
func TestGraceThatRunsOutIsGivenUp(t *testing.T) {
	var l late
	for range maxExpired - 1 {
		l.expire()
	}
	l.waiting = true
	if l.posted(); !l.waiting {
		t.Error("given up before it ran out often enough: one delay may be chance")
	}
	l.expire()
	if l.posted(); l.waiting {
		t.Errorf("the acknowledgement still waits after the grace ran out %d times in a row", maxExpired)
	}
}

// What was given up is tried again, ever more rarely.
func TestGraceIsTriedAgainEverMoreRarely(t *testing.T) {
	var l late
	last := 0
	for last < maxTogether {
		for range maxExpired {
			l.expire()
		}
		if l.together <= last || l.together > maxTogether {
			t.Fatalf("given up for %d messages after %d", l.together, last)
		}
		last = l.together
	}
}
