// SPDX-License-Identifier: BSD-2-Clause

package core

import (
	"runtime"
	"sync/atomic"
	"testing"

	"verbena/ib"
	"verbena/internal/engine"
	"verbena/internal/queue"
)

// TestLastEventOfAClosedChannel takes an event that was left when the channel closed. Goroutines
// that wait for others must wake up all the same.
func TestLastEventOfAClosedChannel(t *testing.T) {
	q := &CQ{}
	c := &CompChannel{ready: make(chan struct{}, 1)}
	c.put(q)
	c.close()
	if got, err := c.take(); got != q || err != nil {
		t.Fatalf("%v, %v", got, err)
	}
	if len(c.ready) == 0 {
		t.Error("a goroutine that waits is not told of the end")
	}
	if _, err := c.take(); err == nil || len(c.ready) == 0 {
		t.Errorf("then %v, and %d tokens", err, len(c.ready))
	}
}

// A goroutine takes the event of another, which is about to wait. The other one is not due then.
// (It was for ever, so that the goroutine that reads yielded in vain.)
func TestTakenEventMakesNoGoroutineDue(t *testing.T) {
	e, err := engine.New(engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	q, c := &CQ{}, &CompChannel{ctx: &Context{eng: e}, ready: make(chan struct{}, 1)}
	for range 2 {
		c.turn.Store(awaitsTurn) // the other one is about to wait
		if c.put(q); e.Probe().Due() != 1 {
			t.Fatalf("%d goroutines are due after an event", e.Probe().Due())
		}
		if got, err := c.take(); got != q || err != nil {
			t.Fatalf("%v, %v", got, err)
		}
		if n := e.Probe().Due(); n != 0 {
			t.Errorf("%d goroutines are due without an event", n)
		}
		if c.turn.Load() != awaitsTurn {
			t.Error("the other one does not wait")
		}
	}
	if c.endTurn(); e.Probe().Due() != 0 {
		t.Errorf("%d goroutines are due at last", e.Probe().Due())
	}
}

// A goroutine whose polls find nothing lets others run on its core. A thread of another process may
// have the core for long, and there are no yields for a time then.
func TestPollGivesWay(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	e, err := engine.New(engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	c := &Context{eng: e}
	q := &CQ{ctx: c, ring: queue.NewCQ(1)}
	q.lane.Store(e.NewLane())
	var turns atomic.Int32
	var over atomic.Bool
	defer over.Store(true)
	go func() {
		for !over.Load() {
			turns.Add(1)
			runtime.Gosched()
		}
	}()
	const soon, enough = 256, 20 // polls before a turn of the other goroutine; such turns
	wc := make([]ib.WC, 1)
	for early, late := 0, 0; early < enough; {
		polls := 0
		for before := turns.Load(); turns.Load() == before; polls++ {
			if n, err := q.Poll(wc); n != 0 || err != nil {
				t.Fatal(n, err)
			}
		}
		if polls < soon {
			early++
		} else if late++; late == 10*enough { // Go's own preemption, each 10 ms
			t.Fatalf("%d turns within %d polls, and %d after more", early, soon, late)
		}
	}
}

// others is an input whose messages are for another channel than that of the goroutine that reads.
type others struct {
	to     *CompChannel
	due    atomic.Int32 // look that finds a message
	looks  atomic.Int32 // that found nothing, since the last message
	prompt atomic.Int32 // messages whose goroutine ran before a second such look
}

func (o *others) TryPoll(bool) int {
	if o.due.Add(-1) == 0 {
		o.looks.Store(0)
		o.to.put(&CQ{})
		return 1
	}
	o.looks.Add(1)
	return 0
}

func (o *others) Stop() {}

// The goroutine that reads before it sleeps finds the message of another, which runs at once: the
// other processor is busy. (It ran once the first had spun in vain, and slept.)
func TestSpinLetsOtherGoroutinesRun(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	var over atomic.Bool
	defer over.Store(true)
	go func() {
		for !over.Load() { // keeps a processor busy
		}
	}()
	const engines, messages = 20, 3 // one that spins in vain more often does not spin
	prompt := 0
	for range engines {
		prompt += findForOthers(t, messages)
	}
	if prompt < engines*messages/2 {
		t.Errorf("the goroutines of %d of %d messages ran at once", prompt, engines*messages)
	}
}

// findForOthers has a goroutine find messages for another, which it answers. It returns how many
// the other one saw at once.
func findForOthers(t *testing.T, messages int) int {
	e, err := engine.New(engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if e.ReadTokens() == nil {
		t.Skip("no goroutine that waits reads the network here")
	}
	channel := func() *CompChannel {
		c := &CompChannel{ctx: &Context{eng: e}, ready: make(chan struct{}, 1)}
		c.idle, c.interrupt = c.mayWait, c.wake
		return c
	}
	reader, other := channel(), channel()
	in := &others{to: other}
	e.AddInput(in)
	reader.idle = func() bool { // it has not spun: the next look finds the message
		return !in.due.CompareAndSwap(2, 1) && !in.due.CompareAndSwap(1, 1) && reader.mayWait()
	}
	go func() {
		for range messages {
			other.turn.Store(awaitsTurn)
			<-other.ready
			other.endTurn()
			if in.looks.Load() < 2 {
				in.prompt.Add(1)
			}
			other.take()
			reader.put(&CQ{})
		}
	}()
	for range messages {
		in.due.Store(2) // the first look is before it spins
		if _, err := reader.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return int(in.prompt.Load())
}
