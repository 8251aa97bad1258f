// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"testing"

	"verbena/internal/engine/policy"
	"verbena/internal/monotime"
)

// spinWorld is a thread that waits for messages, in virtual time.
type spinWorld struct {
	spin Spin
	now  monotime.Time
	// of the last wait
	reads int
	took  monotime.Duration
}

const (
	clockCosts = 50 * monotime.Nanosecond
	readCosts  = 400 * monotime.Nanosecond
)

// wait waits for a message that comes after a time, in a ring or at a socket.
func (w *spinWorld) wait(after monotime.Duration, ring bool) (found bool) {
	start := w.now
	w.reads = 0
	found = w.spin.wait(func() monotime.Time {
		w.now = w.now.Add(clockCosts)
		return w.now
	}, func() bool {
		return ring && w.now.Sub(start) >= after
	}, func() bool {
		w.reads++
		w.now = w.now.Add(readCosts)
		return w.now.Sub(start) >= after
	})
	w.took = w.now.Sub(start)
	return found
}

func TestSpinFindsMessagesThatComeSoon(t *testing.T) {
	var w spinWorld
	const after = 7 * monotime.Microsecond
	reads := 0
	for i := range 1000 {
		if !w.wait(after, false) || w.took > after+closeLook+2*readCosts+2*clockCosts {
			t.Fatalf("a message at a socket after %v: not found, or after %v", after, w.took)
		}
		if i >= 100 { // by then it has learnt when they come
			reads += w.reads
		}
		if !w.wait(monotime.Microsecond, true) || w.reads != 1 ||
			w.took > monotime.Microsecond+readCosts+2*clockCosts {
			t.Fatalf("a message in a ring after 1 µs: %d reads, %v", w.reads, w.took)
		}
	}
	if reads > 2*900 {
		t.Errorf("%d looks at sockets found 900 messages", reads)
	}
}

// A thread whose messages come late, or not, does not spin for long, and tries again ever less.
func TestSpinRestsWhereItDoesNotPay(t *testing.T) {
	for _, c := range []struct {
		name  string
		after monotime.Duration
		most  int // waits that spin before a rest
	}{
		{"not at all", monotime.Second, spinPatience / missCosts},
		{"late", spinPays + 15*monotime.Microsecond, spinPatience / lateCosts},
	} {
		var w spinWorld
		for rest := firstRest; rest <= 4*lastRest; rest *= 2 {
			spun := 0
			for w.spin.rest.Load() == 0 {
				w.wait(c.after, false)
				if spun++; w.took > policy.Spin+readCosts+2*clockCosts || spun > c.most {
					t.Fatalf("%s: wait %d before the rest of %d: %v", c.name, spun, rest, w.took)
				}
			}
			if spun < c.most {
				t.Fatalf("%s: rests after %d waits", c.name, spun)
			}
			for i := range min(rest, lastRest) {
				if w.wait(c.after, false); w.reads > 0 {
					t.Fatalf("%s: wait %d of a rest of %d spins for %v", c.name, i, rest, w.took)
				}
			}
		}
	}
}

// The first messages come late while the peer sleeps. A thread that spins on makes its peer's
// messages come soon, so that both find what they wait for.
func TestSpinTwoEndsComeTogether(t *testing.T) {
	var ends [2]spinWorld
	const awake, asleep = 8 * monotime.Microsecond, 40 * monotime.Microsecond
	sleeps := [2]bool{true, true}
	ends[1].spin.rest.Store(lastRest / 2) // they do not try at once
	slept := 0
	for i := range 4 * lastRest {
		at := i % 2
		after := awake
		if sleeps[1-at] {
			after = asleep
		}
		sleeps[at] = !ends[at].wait(after, false)
		if sleeps[at] && i > 3*lastRest {
			slept++
		}
	}
	if slept > 0 {
		t.Errorf("%d of the last %d waits were sleeps", slept, lastRest)
	}
}

// Messages that come soon shorten the rests again. One alone does not.
func TestSpinForgetsRestsOnceItPays(t *testing.T) {
	for soon, want := range map[int]int32{1: lastRest, 10: firstRest} {
		var w spinWorld
		w.spin.term.Store(lastRest)
		for range soon {
			w.wait(monotime.Microsecond, true)
		}
		for w.spin.rest.Load() == 0 {
			w.wait(monotime.Second, false)
		}
		if got := w.spin.rest.Load(); got != want {
			t.Errorf("after %d messages that came soon a rest of %d waits, want %d", soon, got, want)
		}
	}
}

// A message that comes soon now and then does not keep a thread spinning that mostly spins in vain.
// (It forgot three such waits each time.)
func TestSpinRestsWhereFewMessagesComeSoon(t *testing.T) {
	const waits = 10000
	for phase := range 4 {
		var w spinWorld
		vain := 0
		for i := range waits {
			after := monotime.Second
			if (i+phase)%4 == 3 {
				after = 7 * monotime.Microsecond
			}
			if w.wait(after, false); w.took > policy.Spin {
				vain++
			}
		}
		if vain > waits/50 {
			t.Errorf("%d of %d waits spin in vain", vain, waits)
		}
	}
}

// A thread looks at sockets for a message that comes soon, whatever it has learnt before. (From
// late messages it learnt to look late.)
func TestSpinLooksSoonAfterLateMessages(t *testing.T) {
	for _, c := range []struct {
		late  monotime.Duration
		most  int // messages that are found late
		found bool
	}{
		{policy.Spin - 5*monotime.Microsecond, 15, true}, {monotime.Second, 0, false},
	} {
		var w spinWorld
		w.spin.first.Store(int64(20 * monotime.Microsecond))
		for range 3 {
			if w.wait(c.late, false) != c.found {
				t.Fatalf("a message after %v: found %v", c.late, !c.found)
			}
		}
		const soon = 4 * monotime.Microsecond
		late := 0
		for w.wait(soon, false); w.took > soon+closeLook+2*readCosts; w.wait(soon, false) {
			if late++; late > c.most || w.took > spinPays+readCosts+2*clockCosts {
				t.Fatalf("after those of %v message %d after %v was found after %v", c.late, late,
					soon, w.took)
			}
		}
	}
}

// A thread that was held up for longer than it spins looks at sockets once.
func TestSpinLooksOnceAfterADelay(t *testing.T) {
	for _, want := range []bool{true, false} {
		var s Spin
		var now monotime.Time
		reads := 0
		found := s.wait(func() monotime.Time {
			now = now.Add(2 * policy.Spin)
			return now
		}, func() bool { return false }, func() bool {
			reads++
			return want
		})
		if found != want || reads != 1 {
			t.Errorf("found %v, want %v; %d looks at sockets", found, want, reads)
		}
	}
}

// After a long message a thread sleeps at once, and spins again for the next one.
func TestSpinSleepsAfterALongMessage(t *testing.T) {
	var e Engine
	e.rings.Store(&[]laneRing{})
	for _, c := range []struct{ bytes, rest int }{
		{policy.SpinBytes - 1, 0}, {policy.SpinBytes, longRest}, {64, 0},
	} {
		var s Spin
		e.NoteMessage(c.bytes)
		e.NoteMessage(16) // an acknowledgement
		rest := 0
		for !s.Wait(&e, func() bool { return true }) {
			rest++
		}
		if rest != c.rest {
			t.Errorf("after %d bytes %d waits sleep at once, want %d", c.bytes, rest, c.rest)
		}
	}
}
