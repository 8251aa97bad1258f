// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"runtime"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"verbena/internal/monotime"
)

// pipeRing is a ring of numbers of messages, that a peer of the test writes.
type pipeRing struct {
	eng    *Engine
	unread atomic.Int32
	armed  atomic.Bool
	read   atomic.Int32 // messages that were read
}

func (r *pipeRing) TryPoll(bool) int {
	n := r.unread.Swap(0)
	r.read.Add(n)
	return int(n)
}
func (r *pipeRing) Stop()         {}
func (r *pipeRing) TakeAll()      { r.TryPoll(false) }
func (r *pipeRing) Shown() bool   { return true }
func (r *pipeRing) Waiting() bool { return r.unread.Load() > 0 }
func (r *pipeRing) Idle() bool    { return !r.Waiting() }
func (r *pipeRing) Arm() bool     { r.armed.Store(true); return !r.Waiting() }
func (r *pipeRing) Disarm()       {}
func (r *pipeRing) Frames() bool  { return false }

// write publishes a message, and rings if a thread is asleep.
func (r *pipeRing) write() (rang bool) {
	r.unread.Add(1)
	if !r.armed.Swap(false) {
		return false
	}
	one := [8]byte{1}
	_, _ = unix.Write(r.eng.BellFD(), one[:])
	return true
}

// withPipeRing returns an engine and its ring.
func withPipeRing(t *testing.T) (*Engine, *pipeRing) {
	t.Helper()
	e, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	r := &pipeRing{eng: e}
	e.AddRing(r)
	return e, r
}

// A thread that naps reads the bell. It rings again for another that sleeps.
func TestNapLeavesNoBell(t *testing.T) {
	e, r := withPipeRing(t)
	bell, _ := e.ArrivalFDs()
	rang := func() bool {
		n, _ := unix.Poll([]unix.PollFd{{Fd: int32(bell), Events: unix.POLLIN}}, 0)
		return n > 0
	}
	for _, others := range []int{0, 1} {
		for range others {
			if !e.BeginWait() {
				t.Fatal("something has come")
			}
		}
		if !e.BeginNap() {
			t.Fatal("something has come")
		}
		r.write()
		e.EndNap()
		// The goroutine may read for a thread that is held up.
		if others == 0 && rang() || others == 1 && !rang() && r.Waiting() {
			t.Errorf("%d others sleep: the bell has rung: %v", others, rang())
		}
		for range others {
			e.EndWait()
		}
		e.Collect(false)
	}
}

// idleSleeper is an input of memory that nobody writes.
type idleSleeper struct{}

func (idleSleeper) TryPoll(bool) int { return 0 }
func (idleSleeper) Stop()            {}
func (idleSleeper) Waiting() bool    { return false }
func (idleSleeper) Arm(monotime.Time) (until monotime.Time, quiet bool) {
	return monotime.Never, true
}

// A nap does not wake the background goroutine, also where that looks after inputs of memory.
func TestNapLeavesTheGoroutineAsleep(t *testing.T) {
	e, _ := withPipeRing(t)
	e.AddInput(idleSleeper{})
	e.bg.stop() // it would reset kicked
	e.bg.kicked.Store(false)
	if !e.BeginNap() {
		t.Fatal("something has come")
	}
	e.EndNap()
	if e.bg.kicked.Load() {
		t.Error("kicked")
	}
}

// The thread that waits is woken by the bell, once a message, and reads by itself: the
// background goroutine leaves it the messages.
func TestWaiterReadsItself(t *testing.T) {
	e, r := withPipeRing(t)
	bell, _ := e.ArrivalFDs()
	const messages = 1000
	got, rang := 0, 0
	for range messages {
		for !e.BeginWait() {
			got += e.Collect(false)
		}
		if !r.write() {
			t.Fatal("a sleeping thread is not rung for")
		}
		n, _ := unix.Poll([]unix.PollFd{{Fd: int32(bell), Events: unix.POLLIN}}, 0)
		rang += max(n, 0)
		e.EndWait()
		got += e.Collect(false)
	}
	for r.read.Load() < messages { // the goroutine may be about to count its last
		runtime.Gosched()
	}
	// Not all: a thread that is held up for a nap loses the bell and its message to the goroutine.
	if got < messages/2 || rang < messages/2 {
		t.Errorf("of %d messages the bell rang for %d, and the thread that waited read %d", messages,
			rang, got)
	}
}

// A thread that reads the bell arms for others that sleep.
func TestReaderArmsForOthers(t *testing.T) {
	e, err := New(Options{Nap: monotime.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	r := &pipeRing{eng: e}
	e.AddRing(r)
	e.BeginWatch()
	defer e.EndWatch()
	e.BeginWait()
	r.write()
	e.EndWait()
	e.Collect(false)
	if !r.write() {
		t.Error("nobody rings for the thread that still sleeps")
	}
}

// countedInput is an input that counts how often it is read.
type countedInput struct{ has, reads int }

func (i *countedInput) TryPoll(bool) int {
	i.reads++
	n := i.has
	i.has = 0
	return n
}
func (i *countedInput) Stop() {}

// A thread that waits next leaves alone the sockets that had nothing at its last read before a
// wait: a packet on one of them ends the wait. A read after a wait does not matter.
func TestQuietSocketsAreLeftToTheWait(t *testing.T) {
	e, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	e.Probe().StopBackground()
	in := &countedInput{}
	e.AddInput(in)
	for i, step := range []struct {
		has   int
		waits bool
		reads int
	}{{1, false, 1}, {1, true, 1}, {0, true, 1}, {0, true, 0}, {1, false, 1}, {0, true, 0}} {
		in.has, in.reads = step.has, 0
		if e.Collect(step.waits); in.reads != step.reads {
			t.Errorf("step %d: read %d times, want %d", i, in.reads, step.reads)
		}
	}
}

// A thread that collects may read the bell by which the background goroutine sleeps. It ends that
// sleep, even one that Wake has begun: the goroutine arms the rings again.
func TestCollectEndsTheSleepOfTheGoroutine(t *testing.T) {
	e, r := withPipeRing(t)
	for range 20 {
		e.Wake()
		await(t, "the goroutine sleeps", func() bool { return e.bg.away.Load() && r.armed.Load() })
		r.armed.Store(false) // as a peer does whose bell Collect reads
		e.Collect(false)
		await(t, "the goroutine arms again", r.armed.Load)
	}
}

// A thread that finds something as it is about to wait counts as one that has read: the background
// goroutine may have counted on it.
func TestWaitThatDoesNotBeginIsARead(t *testing.T) {
	e, err := New(Options{Nap: monotime.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	e.AddRing(&noisyRing{})
	before := e.arrival.collects.Load()
	if e.BeginWait() {
		t.Fatal("it waits, and something is there")
	}
	if e.arrival.collects.Load() == before || e.arrival.waiters.Load() != 0 {
		t.Error("the goroutine does not learn of it")
	}
}

// noisyRing always has something.
type noisyRing struct{ pipeRing }

func (r *noisyRing) Arm() bool     { return false }
func (r *noisyRing) Waiting() bool { return true }
func (r *noisyRing) Idle() bool    { return false }

func await(t *testing.T, why string, done func() bool) {
	t.Helper()
	for end := monotime.Now().Add(10 * monotime.Second); !done(); runtime.Gosched() {
		if end.Before(monotime.Now()) {
			t.Fatal(why + ": not in time")
		}
	}
}
