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
