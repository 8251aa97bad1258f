// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"runtime"
	"sync/atomic"
	"testing"

	"verbena/internal/engine/policy"
	"verbena/internal/monotime"
)

// TestOneGoroutineReads has goroutines take the right to read in turns: one at a time has it, and
// the engine closes only when none has.
func TestOneGoroutineReads(t *testing.T) {
	e, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	const goroutines, turns = 8, 100
	var inside, done atomic.Int32
	for range goroutines {
		go func() {
			defer done.Add(1)
			for range turns {
				a := <-e.ReadTokens()
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d goroutines have the right", n)
				}
				runtime.Gosched()
				inside.Add(-1)
				a.Release()
			}
		}()
	}
	for done.Load() < goroutines {
		runtime.Gosched()
	}
	a := <-e.ReadTokens()
	closed := make(chan struct{})
	go func() { e.Close(); close(closed) }()
	select {
	case <-closed:
		t.Error("the engine closed under a goroutine that reads")
	default:
	}
	a.Release()
	<-closed
}

// TestLetRun has a goroutine run that is ready, and otherwise the caller keep its thread.
func TestLetRun(t *testing.T) {
	e, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	a := <-e.ReadTokens()
	defer a.Release()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // nobody else takes what is ready
	for i := 0; a.LetRun(); i++ {                   // the runtime's own goroutines may be ready
		if i == 10_000 {
			t.Fatal("something is ready each time")
		}
	}
	var ran atomic.Bool
	go func() { ran.Store(true) }()
	if !a.LetRun() || !ran.Load() {
		t.Error("a goroutine that was ready did not run")
	}
	if n := testing.AllocsPerRun(100, func() { a.LetRun() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestTokenHolderWakes has the goroutine that sleeps wake up for a message of a peer, and for
// another goroutine. A reason to stay awake that comes while it falls asleep is not missed.
func TestTokenHolderWakes(t *testing.T) {
	e, r := withPipeRing(t)
	var news, over atomic.Bool
	slept := make(chan bool)
	go func() {
		a := <-e.ReadTokens()
		defer a.Release()
		defer close(slept)
		for !over.Load() {
			if !a.Sleep(func() bool { return !news.Load() }) {
				t.Error("the descriptors are lost")
			}
			a.Collect(false)
			if news.Swap(false) {
				slept <- true
			}
		}
	}()
	const rounds = 2000
	for range rounds {
		r.write()
		for r.unread.Load() > 0 { // the background goroutine may read it, where this one is held up
			runtime.Gosched()
		}
		news.Store(true)
		e.WakeTokenHolder()
		<-slept
	}
	over.Store(true)
	news.Store(true)
	e.WakeTokenHolder()
	<-slept
}

// TestTokenHolderLeavesReadingToPollers has a thread poll meanwhile: the goroutine that sleeps is
// to return the right.
func TestTokenHolderLeavesReadingToPollers(t *testing.T) {
	e, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	a := <-e.ReadTokens()
	defer a.Release()
	a.Begin()
	awake := func() bool { return false }
	for range 2 * policy.OthersPolls {
		a.Collect(true)
		if !a.Sleep(awake) {
			t.Fatal("its own looks count as those of others")
		}
	}
	for range policy.OthersPolls + 1 {
		e.FirstLane().Poll()
	}
	if a.Sleep(awake) {
		t.Error("it stays, though others poll")
	}
	a.Begin()
	if !a.Sleep(awake) {
		t.Error("it may not begin again")
	}
}

// TestTokenHolderSpins has the goroutine that is about to sleep read on for a while. It does not
// where it would keep other goroutines from the only processor.
func TestTokenHolderSpins(t *testing.T) {
	e, _ := withPipeRing(t)
	a := <-e.ReadTokens()
	defer a.Release()
	for _, processors := range []int{2, 1} {
		before := runtime.GOMAXPROCS(processors)
		reads := 0
		came := a.Spin(func() bool { reads++; return true })
		runtime.GOMAXPROCS(before)
		if want := processors > 1; came != want || (reads > 0) != want {
			t.Errorf("%d processors: %d reads", processors, reads)
		}
	}
}

// A goroutine that waits leaves its answer to the one that reads, but not if that may not run for
// long: it sleeps, or yields to goroutines that compute. (Answers waited for 10 ms and more.)
func TestAnswersBehindTheReader(t *testing.T) {
	for _, c := range []struct {
		name           string
		asleep, yields bool
		due            int32
		settles        bool
	}{
		{"reads", false, false, 0, false},
		{"sleeps", true, false, 0, true},
		{"sleeps, others are due", true, false, 1, true},
		{"yields", false, true, 0, true},
		{"yields, others are due", false, true, 1, false},
	} {
		a, now := newAnswering(t), monotime.Time(0)
		r := &a.eng.readToken
		r.asleep.Store(c.asleep)
		r.yields.Store(c.yields)
		a.eng.NoteDue(c.due)
		a.hear(now, 10)
		if a.answer(&now, quick, 5) != 0 {
			t.Fatal("5 answers to 10 messages do not wait")
		}
		if a.eng.SettleBehindReader(); a.flushed > 0 != c.settles {
			t.Errorf("the goroutine that reads %s: flushed %d times", c.name, a.flushed)
		}
		r.asleep.Store(false)
	}
}

// Goroutines see whether the one that reads yields.
func TestTokenHolderShowsThatItYields(t *testing.T) {
	e, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	a := <-e.ReadTokens()
	defer a.Release()
	for name, yield := range map[string]func(){"Yield": a.Yield, "Gosched": a.Gosched} {
		e.NoteDue(1)
		var seen atomic.Bool
		go func() {
			for !a.yields.Load() {
				runtime.Gosched()
			}
			seen.Store(true)
		}()
		for !seen.Load() {
			yield()
		}
		if e.NoteDue(-1); a.yields.Load() {
			t.Errorf("%s has ended, and it seems to yield", name)
		}
	}
}
