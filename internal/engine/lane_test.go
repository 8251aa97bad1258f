// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"testing"
	"time"

	"verbena/internal/engine/policy"
)

// countRing counts how often it is read.
type countRing struct{ reads int }

func (r *countRing) TryPoll(bool) int { r.reads++; return 0 }
func (r *countRing) Stop()            {}
func (r *countRing) TakeAll()         {}
func (r *countRing) Shown() bool      { return true }
func (r *countRing) Waiting() bool    { return false }
func (r *countRing) Idle() bool       { return false }
func (r *countRing) Arm() bool        { return true }
func (r *countRing) Disarm()          {}
func (r *countRing) Frames() bool     { return false }

// idleRing is a countRing in which nothing is.
type idleRing struct{ countRing }

func (r *idleRing) Idle() bool { return true }

// A poll takes no lock of a ring in which nothing is.
func TestPollPassesIdleRings(t *testing.T) {
	e, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	e.Probe().StopBackground() // it reads all rings
	r := &idleRing{}
	e.AddRing(r)
	if e.FirstLane().Poll(); r.reads != 0 {
		t.Error("it was read")
	}
}

// A poll reads the rings of its Lane, those of all Lanes, and those of Lanes that nobody polls.
func TestPollReadsRingsOfItsLane(t *testing.T) {
	e, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	e.Probe().StopBackground() // it reads all rings
	first, second := e.NewLane(), e.NewLane()
	ofFirst, ofSecond, ofAll := &countRing{}, &countRing{}, &countRing{}
	first.AddRing(ofFirst)
	second.AddRing(ofSecond)
	e.AddRing(ofAll)

	polls := int(100 * policy.TimerPolls)
	for range polls {
		first.Poll()
		second.Poll()
	}
	if ofFirst.reads != polls || ofSecond.reads != polls || ofAll.reads != 2*polls {
		t.Fatalf("%d polls of each of two Lanes read the ring of the first %d times, of the "+
			"second %d, of both %d", polls, ofFirst.reads, ofSecond.reads, ofAll.reads)
	}

	for begin, before := time.Now(), ofSecond.reads; ofSecond.reads == before; {
		if first.Poll(); time.Since(begin) > 10*time.Second {
			t.Fatal("nobody reads the ring of a Lane that nobody polls")
		}
	}
	for begin := time.Now(); ; second.Poll() {
		before := ofSecond.reads
		if first.Poll(); ofSecond.reads == before {
			break
		}
		if time.Since(begin) > 10*time.Second {
			t.Fatal("two Lanes read a ring although each is polled")
		}
	}
}

// Completion queues beyond the number of Lanes share them.
func TestLanesAreShared(t *testing.T) {
	e, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	var lanes []*Lane
	for range 2 * MaxLanes {
		lanes = append(lanes, e.NewLane())
	}
	for i, l := range lanes {
		if l.Number() != i%MaxLanes {
			t.Errorf("queue %d has Lane %d", i, l.Number())
		}
	}
}

// busyInput is read by another thread whenever a thread looks.
type busyInput struct {
	reads   int
	divided []*Lane
}

func (in *busyInput) TryPoll(bool) int { in.reads++; return Busy }
func (in *busyInput) Stop()            {}
func (in *busyInput) Divide(l *Lane)   { in.divided = append(in.divided, l) }

// laterInput is read by another thread for some looks.
type laterInput struct{ busy, taken int }

func (in *laterInput) TryPoll(bool) int {
	if in.busy > 0 {
		in.busy--
		return Busy
	}
	in.taken++
	return 0
}

func (in *laterInput) Stop() {}

// Before a queue pair is destroyed all packets of it are handled, also those that another thread
// has read just now.
func TestTakeArrivedWaitsForAReader(t *testing.T) {
	e, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	e.Probe().StopBackground()
	in := &laterInput{busy: 3}
	e.AddInput(in)
	e.TakeArrived()
	if in.taken != 1 {
		t.Errorf("read %d times after the other thread, want once", in.taken)
	}
}

// A thread that often finds another one reading has the input divided, if that thread polls another
// Lane. The background goroutine, or a thread that polls the same Lane, is no reason.
func TestBusyInputIsDivided(t *testing.T) {
	e, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	e.Probe().StopBackground()
	first, second := e.NewLane(), e.NewLane()
	in := &busyInput{}
	e.AddInput(in)
	first.Poll()
	for begin := time.Now(); time.Since(begin) < 10*time.Duration(policy.LaneLook); {
		first.Poll() // it finds that nobody polls the other
	}
	in.divided = nil
	for range 10 * policy.BusyPolls {
		first.Poll()
	}
	if len(in.divided) > 0 {
		t.Fatal("divided although one Lane is polled")
	}
	for begin := time.Now(); len(in.divided) == 0; {
		first.Poll()
		second.Poll()
		if time.Since(begin) > 10*time.Second {
			t.Fatal("not divided although two Lanes are polled")
		}
	}
}

// A poll reads the inputs of its Lane, and those of Lanes that nobody polls or has. Two threads do
// not read one input because it is for other Lanes too that nobody polls.
func TestPollReadsInputsOfItsLane(t *testing.T) {
	e, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	e.Probe().StopBackground()
	first, second := e.NewLane(), e.NewLane()
	part := e.LanesOf(second.Part())
	ofFirst, ofSecond := &countRing{}, &countRing{}
	e.AddInputOf(ofSecond, part)
	e.AddInputOf(ofFirst, AllLanes)
	e.SetLanes(ofFirst, AllLanes&^part)
	both := func() { first.Poll(); second.Poll() }
	for begin := time.Now(); time.Since(begin) < 10*time.Duration(policy.LaneLook); {
		both() // they find that nobody polls the other Lanes
	}
	ofFirst.reads, ofSecond.reads = 0, 0
	polls := 100 * int(policy.TimerPolls)
	for range polls {
		both()
	}
	if ofFirst.reads != polls || ofSecond.reads != polls {
		t.Fatalf("%d polls of each of two Lanes read the input of the first %d times, of the second %d",
			polls, ofFirst.reads, ofSecond.reads)
	}
	for begin := time.Now(); ofSecond.reads == polls; first.Poll() {
		if time.Since(begin) > 10*time.Second {
			t.Fatal("nobody reads the input of a Lane that nobody polls")
		}
	}
	ofFirst.reads = 0
	for begin := time.Now(); ofFirst.reads == 0; second.Poll() {
		if time.Since(begin) > 10*time.Second {
			t.Fatal("nobody reads the input of a Lane that nobody polls any more")
		}
	}
}
