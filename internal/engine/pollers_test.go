// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"runtime"
	"sync/atomic"
	"testing"

	"verbena/internal/engine/policy"
	"verbena/internal/monotime"
)

// Sixteen threads that poll on two cores poll once in a turn each, and wait for the others. The
// goroutine took each for one that had gone, woke for each of its packets, and needed the core
// as much as the threads. (An allreduce of 8 ranks took a millisecond.)
func TestThreadThatWaitsForACorePolls(t *testing.T) {
	var p pollers
	now, polls := monotime.Time(1), uint64(0)
	missing := 0
	for i := range 1000 {
		now = now.Add(policy.Nap)
		if i%8 == 0 { // once in 4 ms
			polls++
		}
		if !p.there(now, polls, false, false) {
			missing++
		}
	}
	if missing > 0 {
		t.Errorf("in %d naps of 1000 the goroutine takes the thread for gone", missing)
	}
}

func TestThreadThatSleepsOrHasGoneDoesNotPoll(t *testing.T) {
	var p pollers
	now, polls := monotime.Time(1), uint64(1000)
	if !p.there(now, polls, false, false) {
		t.Fatal("a thread that polls is not seen")
	}
	if p.there(now, polls+1000, true, false) {
		t.Error("a thread that says it is to sleep is taken to poll")
	}
	for range 100 { // it says so at each event
		now, polls = now.Add(policy.Nap), polls+8
		if p.there(now, polls, true, false) || p.there(now, polls, false, false) {
			t.Fatal("a thread that sleeps between events is taken to poll")
		}
	}
	p.there(now, polls+1000, false, false)
	now = now.Add(policy.PollersGone + 1)
	if p.there(now, polls+1000, false, false) {
		t.Error("a thread that has not polled for long is taken to poll")
	}
}

// Each nap that ends costs the other processes a turn.
func TestNapsAreLongInAProcessThatWaitsForCores(t *testing.T) {
	var p pollers
	now := monotime.Time(1)
	nap := func(used func(d monotime.Duration) monotime.Duration, preempted bool) {
		d := p.next(policy.Nap)
		now = now.Add(d)
		p.slept(now, d, used(d), preempted)
	}
	little := func(d monotime.Duration) monotime.Duration { return d / 8 }
	for i := range 10 {
		nap(little, i%3 == 0) // it may get no core in a whole nap
	}
	if got := p.next(policy.Nap); got != policy.MaxNap {
		t.Errorf("a nap of %v, want %v", got, policy.MaxNap)
	}
	nap(func(d monotime.Duration) monotime.Duration { return d }, true)
	if got := p.next(policy.Nap); got != policy.Nap {
		t.Errorf("a nap of %v in a process that has a core, want %v", got, policy.Nap)
	}
	nap(little, true)
	if p.there(now, 1, false, true) || p.next(policy.Nap) == policy.Nap {
		t.Error("a thread that sleeps and has read ends the long naps, or is taken to poll")
	}
	p.there(now, 1, true, false)
	if got := p.next(policy.Nap); got != policy.Nap {
		t.Errorf("a nap of %v after a thread has left, want %v", got, policy.Nap)
	}
}

// A thread that polls and sleeps in turns uses as little processor time as one that waits for a
// core. Nobody runs its timers while the goroutine naps. (They came up to 4 ms late.)
func TestNapsAreShortInAProcessThatSleeps(t *testing.T) {
	var p pollers
	now := monotime.Time(1)
	for range 10 {
		now = now.Add(policy.Nap)
		p.slept(now, policy.Nap, policy.Nap/8, false)
		if got := p.next(policy.Nap); got != policy.Nap {
			t.Fatalf("a nap of %v, want %v", got, policy.Nap)
		}
	}
	p.slept(now, policy.Nap, policy.Nap/8, true) // another process wanted the core, once
	for end := now.Add(policy.PollersGone + policy.MaxNap); now < end; {
		d := p.next(policy.Nap)
		now = now.Add(d)
		p.slept(now, d, 0, false)
	}
	if got := p.next(policy.Nap); got != policy.Nap {
		t.Errorf("a nap of %v long after the process waited for a core, want %v", got, policy.Nap)
	}
}

// Beside threads that sleep the goroutine asks the kernel about all threads after each nap only
// while the process waits for cores.
func TestNapsOfAProcessThatHasCoresAreSeldomLookedAt(t *testing.T) {
	var p pollers
	now := monotime.Time(1)
	naps := func(n int) (looks int) {
		for range n {
			now = now.Add(policy.Nap)
			if p.looks(now) {
				looks++
			}
		}
		return looks
	}
	if got := naps(10 * napsPerLook); got != 10 {
		t.Errorf("%d looks in %d naps, want 10", got, 10*napsPerLook)
	}
	p.slept(now, policy.Nap, 0, true)
	n := int(policy.PollersGone / policy.Nap)
	if got := naps(n); got != n {
		t.Errorf("%d looks in %d naps of a process that waits for cores", got, n)
	}
	if got := naps(10 * napsPerLook); got != 10 {
		t.Errorf("%d looks in %d naps long after that, want 10", got, 10*napsPerLook)
	}
}

// stoppedEngine returns an engine whose background goroutine has ended. The test takes its part.
func stoppedEngine(t *testing.T) *Engine {
	t.Helper()
	e, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	e.bg.stop()
	e.bg.sleep(0) // takes the wake-up of stop
	return e
}

// The same with the process's own time and switches: this test sleeps in the naps.
func TestTimersOfAProcessThatSleepsAreOnTime(t *testing.T) {
	g := &stoppedEngine(t).bg
	g.pollers.nap, g.pollers.waited = policy.MaxNap, monotime.Now()
	for range 1000 { // a loaded machine may preempt it now and then
		if ran := g.nap(monotime.Now()); !ran && g.pollers.nap == 0 {
			return
		}
	}
	t.Errorf("the next nap would be %v, and no timer ends it", g.pollers.nap)
}

// In a process that waits for cores the threads that poll run the timers. A goroutine that each
// deadline wakes, also one that has moved since, takes their core.
func TestTimersRunInShortNapsOnly(t *testing.T) {
	e := stoppedEngine(t)
	g := &e.bg
	g.stopping.Store(false)
	rings := 0
	var a Alarm
	a = NewAlarm(func(now monotime.Time) {
		if rings++; rings == 1 {
			e.Arm(&a, now.Add(monotime.Millisecond))
			return
		}
		g.kick() // ends the nap
	})
	defer e.EndAlarm(&a)

	now := monotime.Now()
	e.Arm(&a, now.Add(monotime.Microsecond))
	g.pollers.nap = 4 * g.backoff
	if g.nap(now); monotime.Now().Sub(now) < 4*g.backoff || rings != 0 {
		t.Errorf("a timer rang %d times in a nap of %v, or ended it", rings, 4*g.backoff)
	}
	g.pollers.nap, g.backoff = 0, 60*monotime.Second // a machine may stand still for a while
	now = monotime.Now()
	if g.nap(now); monotime.Now().Sub(now) >= g.backoff || rings != 2 {
		t.Errorf("a timer rang %d times in the nap of a process that has a core, want 2", rings)
	}
	g.stopping.Store(true)
}

// A thread that answers many messages has timers that move on with each. The goroutine does not
// read beside it for a deadline that has moved on. (It read for each.)
func TestDeadlinesThatHaveMovedAreNotRead(t *testing.T) {
	c := newAnswering(t)
	e, in := c.eng, &countingInput{}
	e.AddInput(in)
	at := func(deadline, armed monotime.Time) {
		c.when, c.armed = deadline, armed
		e.Arm(&c.alarm, armed)
	}
	at(500, 100)
	if e.bg.fireDue(200); in.polls != 0 || c.expired != 0 || e.timers.deadline() != 500 {
		t.Errorf("%d reads and %d time-outs at a deadline that has moved to 500; the timer is at %d",
			in.polls, c.expired, e.timers.deadline())
	}
	at(300, 300)
	if e.bg.fireDue(400); in.polls != 1 || c.expired != 1 {
		t.Errorf("%d reads and %d time-outs at a deadline, want one each", in.polls, c.expired)
	}
	at(monotime.Never, 500)
	if e.bg.fireDue(600); in.polls != 1 || e.timers.deadline() != monotime.Never {
		t.Errorf("%d reads where the deadline was taken away, the timer is at %d", in.polls-1,
			e.timers.deadline())
	}
	c.End()
	at(700, 700)
	if e.bg.fireDue(800); c.expired != 1 || e.timers.deadline() != monotime.Never {
		t.Errorf("%d time-outs of a closed queue pair", c.expired-1)
	}
}

// countingInput counts reads and has nothing.
type countingInput struct{ polls int }

func (i *countingInput) TryPoll(bool) int { i.polls++; return 0 }
func (i *countingInput) Stop()            {}

// The function of OnRound is called while threads poll.
func TestRoundsAreReportedWhileThreadsPoll(t *testing.T) {
	e, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	var calls atomic.Int32
	e.OnRound(func() { calls.Add(1) })
	for calls.Load() < 3 { // the test's time-out ends it
		e.FirstLane().Poll()
		if !e.bg.napping.Load() {
			e.bg.rouse() // it sleeps if this thread had no core for a while
		}
		runtime.Gosched()
	}
}

// The function of OnStir is called for whatever wakes the background goroutine, each time.
func TestStirsAreReported(t *testing.T) {
	e, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	var calls atomic.Int32
	e.OnStir(func() { calls.Add(1) })
	for i := range int32(3) {
		e.bg.wake()
		for calls.Load() <= i { // the test's time-out ends it
			runtime.Gosched()
		}
	}
}

// slowRing calls a function when the background goroutine looks at it, between nap and read.
type slowRing struct {
	countRing
	looked func() (waiting bool)
}

func (r *slowRing) Waiting() bool { return r.looked() }

// readerInput counts the reads of threads that poll, and of the background goroutine.
type readerInput struct {
	threads, goroutine int
	came               int // messages that the next read finds
}

func (i *readerInput) Stop() {}

func (i *readerInput) TryPoll(polling bool) int {
	if polling {
		i.threads++
	} else {
		i.goroutine++
	}
	n := i.came
	i.came = 0
	return n
}

// stoppedWithRing is stoppedEngine with a ring and an input.
func stoppedWithRing(t *testing.T, looked func(e *Engine) bool) (*Engine, *readerInput) {
	t.Helper()
	e := stoppedEngine(t)
	in := &readerInput{}
	e.AddInput(in)
	e.AddRing(&slowRing{looked: func() bool { return looked(e) }})
	e.FirstLane().Poll() // finds the sockets quiet
	*in = readerInput{}
	return e, in
}

// A C program that sleeps between polls reads the sockets at every 512th poll only, if it has a
// ring. Its other polls change the count of polls in each nap, or count for 16 of 64. So the
// goroutine left the packets of remote peers to it. (They waited for so many polls.)
func TestEachNapOfASlowPollerHasARead(t *testing.T) {
	e, in := stoppedWithRing(t, func(e *Engine) bool {
		e.FirstLane().PollFor(16)
		return false
	})
	for i := range 16 {
		if e.bg.leaveToPollers(monotime.Now()); in.threads+in.goroutine != i+1 {
			t.Fatalf("after %d naps the thread has read %d times, the goroutine %d times", i+1,
				in.threads, in.goroutine)
		}
	}
	if want := int(16 * 16 / policy.SocketPolls); in.threads != want {
		t.Errorf("the thread has read %d times, want %d", in.threads, want)
	}
}

// A thread that polls quickly reads the sockets itself.
func TestGoroutineReadsNothingBesideAQuickPoller(t *testing.T) {
	e, in := stoppedWithRing(t, func(e *Engine) bool {
		e.FirstLane().PollFor(policy.SocketPolls)
		return false
	})
	for range 16 {
		e.bg.leaveToPollers(monotime.Now())
	}
	if in.threads != 16 || in.goroutine != 0 {
		t.Errorf("the thread has read %d times, the goroutine %d times", in.threads, in.goroutine)
	}
}

// answerAlone has a message come on a queue pair whose answers join no others, and answers it.
func answerAlone(e *Engine) {
	a := &answering{when: monotime.Never}
	e.NewNumberlessConn(&a.Conn, a, a)
	a.hear(0, 1)
	a.postponeAnswer(0, 1)
}

// Polls of another thread are no sign that a thread that was woken reads. Answers are, also those
// of a TCP stream. (The goroutine read beside a thread that answered 200 streams.)
func TestArrivalIsLeftToThreadsThatAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		looked func(e *Engine)
		left   bool
	}{
		"nothing":             {func(*Engine) {}, false},
		"polls":               {func(e *Engine) { e.FirstLane().PollFor(16) }, false},
		"answers":             {func(e *Engine) { e.FirstLane().joint.answered.Add(1) }, true},
		"answers in a stream": {func(e *Engine) { answerAlone(e) }, true},
	} {
		e, _ := stoppedWithRing(t, func(e *Engine) bool {
			c.looked(e)
			return true
		})
		if left := e.bg.leaveToSleepers(); left != c.left {
			t.Errorf("%s: left to threads: %v", name, left)
		}
	}
}
