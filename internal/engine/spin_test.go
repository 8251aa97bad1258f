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
		{"not at all", 200 * monotime.Microsecond, spinPatience / missCosts},
		{"late", spinPays + 15*monotime.Microsecond, spinPatience / lateCosts},
	} {
		var w spinWorld
		w.wait(c.after, false)
		for rest := firstRest; rest <= 4*lastRest; rest *= 2 {
			spun := 1
			for ; w.spin.rest.Load() == 0; spun++ {
				w.wait(c.after, false)
				if w.reads == 0 || w.took > policy.Spin+readCosts+2*clockCosts {
					t.Fatalf("%s: wait %d before the rest of %v: %v", c.name, spun, rest, w.took)
				}
			}
			if spun != c.most {
				t.Fatalf("%s: rests after %d waits, want %d", c.name, spun, c.most)
			}
			began, waits := w.now, 0
			term, until := min(rest, lastRest), monotime.Time(w.spin.until.Load())
			if until <= began || until.Sub(began) > term || until.Sub(began.NextMultiple(term)) != 0 {
				t.Fatalf("%s: at %v a rest of %v ends at %v", c.name, began, term, until)
			}
			for w.wait(c.after, false); w.reads == 0; w.wait(c.after, false) {
				waits++
				w.now = w.now.Add(c.after)
			}
			most := max(min(rest, lastRest), restWaits*c.after) + 2*c.after
			took := w.now.Sub(began)
			if waits < restWaits || took > most || w.now < until {
				t.Fatalf("%s: a rest of %v for %d waits, want %d at least; and for %v, want %v at most",
					c.name, rest, waits, restWaits, took, most)
			}
		}
	}
}

// The first messages come late while the peer sleeps. A thread that spins on makes its peer's
// messages come soon, so that both find what they wait for. They try together, however they came to
// rest. (Each tried for 64 of 1,088 waits, and both at a time by chance: after 0.3 s.)
func TestSpinTwoEndsComeTogether(t *testing.T) {
	const awake, asleep = 8 * monotime.Microsecond, 40 * monotime.Microsecond
	for begin := monotime.Duration(0); begin < lastRest; begin += 100 * monotime.Microsecond {
		var ends [2]spinWorld
		for i := range ends {
			ends[i].spin.term.Store(int64(lastRest))
			at := monotime.Time(begin + monotime.Duration(i)*lastRest*2/3)
			ends[i].spin.note(spinPatience, at)
		}
		now, sleeps := monotime.Time(begin), [2]bool{true, true}
		slept := now // the last time
		for now.Sub(monotime.Time(begin)) < 4*lastRest {
			for i := range ends {
				after := awake
				if sleeps[1-i] {
					after = asleep
				}
				w := &ends[i]
				w.now = now
				if sleeps[i] = !w.wait(after, false); sleeps[i] {
					w.now, slept = now.Add(after), now
				}
				now = w.now
			}
		}
		if took := slept.Sub(monotime.Time(begin)); took > 2*lastRest+monotime.Millisecond {
			t.Errorf("begun after %v they came together after %v", begin, took)
		}
	}
}

// Messages that come soon shorten the rests again. One alone does not.
func TestSpinForgetsRestsOnceItPays(t *testing.T) {
	for soon, want := range map[int]monotime.Duration{1: lastRest, 20: firstRest} {
		var w spinWorld
		w.spin.term.Store(int64(lastRest))
		for range soon {
			w.wait(monotime.Microsecond, true)
		}
		for w.spin.rest.Load() == 0 {
			w.wait(monotime.Second, false)
		}
		if got := monotime.Duration(w.spin.term.Load()); got != want {
			t.Errorf("after %d messages that came soon a rest of %v, want %v", soon, got, want)
		}
	}
}

// A thread whose messages come as soon as it sleeps, three times, holds the core that its peer
// needs. Messages that make up for these waits, or one that no ring has, show that it does not.
func TestSpinNoticesThatItHoldsItsPeer(t *testing.T) {
	const soon, late = 10 * monotime.Microsecond, 60 * monotime.Microsecond
	for _, c := range []struct {
		name string
		do   func(w *spinWorld)
		want bool
	}{
		{"nothing", func(*spinWorld) {}, true},
		{"found", func(w *spinWorld) { w.wait(monotime.Microsecond, true) }, true},
		{"found often", func(w *spinWorld) {
			for range 2*missCosts/soonSaves + 1 { // which makes up for the two in vain
				w.wait(monotime.Microsecond, true)
			}
		}, false},
		{"late", func(w *spinWorld) { w.sleep(t, late, true) }, false},
		{"by a socket", func(w *spinWorld) { w.sleep(t, soon, false) }, false},
	} {
		var w spinWorld
		w.sleep(t, soon, true)
		w.sleep(t, soon, true)
		c.do(&w)
		w.spin.rest.Store(0)
		w.spin.until.Store(0)
		w.sleep(t, soon, true)
		if got := w.spin.held.Load() >= heldMost; got != c.want {
			t.Errorf("%s in between: %v, want %v", c.name, got, c.want)
		}
	}
}

// sleep is a wait in vain, and a sleep of some length that a message ends.
func (w *spinWorld) sleep(t *testing.T, long monotime.Duration, ring bool) {
	t.Helper()
	if w.wait(monotime.Second, false) {
		t.Fatal("a message")
	}
	w.now = w.now.Add(long)
	w.spin.woke(long, ring)
}

// Where messages are rare ever more waits sleep at once. One that comes in time ends that.
func TestSpinRestsForLongWhereMessagesAreRare(t *testing.T) {
	const waits = 20000
	var w spinWorld
	vain := 0
	for range waits {
		if w.sleep(t, 2*rareAfter, false); w.reads > 0 {
			vain++
		}
	}
	if vain > waits/200 {
		t.Errorf("%d of %d waits spin in vain", vain, waits)
	}
	w.spin.woke(spinPays+1, false)
	w.now = w.now.Add(2 * lastRest)
	w.spin.rest.Store(0)
	w.spin.costs.Store(spinPatience - 1)
	w.wait(monotime.Second, false)
	if got := w.spin.rest.Load(); got != restWaits {
		t.Errorf("after a message in time a rest is %d waits, want %d", got, restWaits)
	}
}

// A shorter rest does not end a longer one.
func TestSpinKeepsTheLongerRest(t *testing.T) {
	var s Spin
	s.restUntil(100)
	s.restUntil(50)
	if got := s.until.Load(); got != 100 {
		t.Errorf("rests until %d, want 100", got)
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
