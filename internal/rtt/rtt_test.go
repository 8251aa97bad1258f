// SPDX-License-Identifier: BSD-2-Clause

package rtt

import (
	"testing"

	"verbena/internal/monotime"
)

const ms = monotime.Millisecond

func TestTimeoutFollowsSamples(t *testing.T) {
	var e Estimator
	if got := e.Timeout(); got != First {
		t.Errorf("%v before any sample", got)
	}
	e.Sample(100 * ms)
	if got := e.Timeout(); got != 300*ms {
		t.Errorf("%v after a sample of 100 ms, want it and 4 times half of it", got)
	}
	for range 100 {
		e.Sample(100 * ms)
	}
	if got := e.Timeout(); got != 125*ms {
		t.Errorf("%v on a path of 100 ms sharp, want a quarter more", got)
	}
	for range 100 {
		e.Sample(0)
	}
	if got := e.Timeout(); got < Least || got > Least+monotime.Microsecond {
		t.Errorf("%v on a path of no length, want %v", got, Least)
	}
}

// The back-off ends with a sample and with nothing else, and does not exceed Most unless the
// path does.
func TestBackoffStaysUntilThereIsASample(t *testing.T) {
	var e Estimator
	for _, want := range []monotime.Duration{10 * ms, 10 * ms, 20 * ms, 40 * ms, 80 * ms, 160 * ms, 320 * ms, 640 * ms, Most, Most} {
		if got := e.Timeout(); got != want {
			t.Errorf("%v, want %v", got, want)
		}
		e.BackOff()
	}
	e.Sample(2 * monotime.Second)
	if e.Backoffs() != 0 || e.Timeout() != 6*monotime.Second {
		t.Errorf("%v after a sample of 2 s", e.Timeout())
	}
	e.BackOff()
	if e.Timeout() != 6*monotime.Second {
		t.Errorf("%v: beyond %v nothing is doubled", e.Timeout(), Most)
	}
}

// A first sample that came after a time-out may be of an answer to what was repeated then.
func TestFirstSampleAfterATimeout(t *testing.T) {
	for _, c := range []struct {
		timedOut bool
		next     monotime.Duration
		most     monotime.Duration // of the time-out then
	}{
		{true, ms, ms + Least},
		{true, 8 * ms, 35 * ms}, // nothing was repeated: the path is long
		{false, ms, 40 * ms},
	} {
		var e Estimator
		if c.timedOut {
			e.BackOff()
		}
		e.Sample(11 * ms)
		e.Sample(c.next)
		if got := e.Timeout(); got > c.most || got < c.most*3/4 {
			t.Errorf("%v after 11 ms (after a time-out: %v) and %v, want about %v", got, c.timedOut,
				c.next, c.most)
		}
	}
}
