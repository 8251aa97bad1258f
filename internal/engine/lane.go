// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"sync/atomic"

	"verbena/internal/engine/policy"
	"verbena/internal/monotime"
)

// A Lane holds the data that a poll writes. Threads that poll different completion queues have a
// Lane each, so that they share neither a lock nor a cache line. A completion queue has a Lane, and
// the queue pairs of the queue have it too:
//
//	thread 1 ─ Lane.Poll ─► rings of its Lane ─┐
//	                        rings of all Lanes ├─► other inputs: of its Lane, or of all
//	thread 2 ─ Lane.Poll ─► rings of its Lane ─┘
//
// No thread has to poll a queue. A Lane that nobody polls is served by those that poll others.
//
// Lanes are a matter of speed: each method is right on any Lane, from any number of threads.
type Lane struct {
	eng    *Engine // immutable
	number int     // immutable: in Engine.lanes

	_ [64]byte // the threads of other Lanes read other cache lines

	polls  atomic.Uint64 // calls of Poll; see count
	looks  atomic.Uint64 // of them: those that read the sockets, where rings are
	silent atomic.Uint64 // looks in a row that found nothing, up to policy.SilentLooks

	// atomic, of the thread that polls; of several threads' looks some may be lost
	looked atomic.Int64            // when the other Lanes were last looked at
	seen   [MaxLanes]atomic.Uint64 // their polls then
	serves atomic.Uint32           // a LaneSet: those that nobody polls

	busySince atomic.Uint64 // polls when busy was 0
	busy      atomic.Uint32 // looks since that found another thread reading

	delayed delayed[DelayedAck]
	rest    atomic.Int64 // until when all that is in delayed waits; 0: unknown
	answers delayed[Conn]
	joint   jointAnswers
	alone   atomic.Uint32 // answers that a socket takes from one queue pair at a time
	hears   atomic.Bool   // a Conn of it has ever noted messages: see Conn.Heard
	read    atomic.Int64  // when a thread last ended a read of sockets that found messages
	way     giveWay

	_ [64]byte
}

// MaxLanes bounds the cost of a look at all Lanes. Completion queues beyond it share them.
const MaxLanes = 16

func (e *Engine) makeLanes() {
	for i := range e.lanes {
		e.lanes[i].eng, e.lanes[i].number = e, i
	}
}

// usedLanes returns the Lanes that were given out, at least one.
func (e *Engine) usedLanes() []Lane {
	return e.lanes[:max(1, min(e.lanesGiven.Load(), MaxLanes))]
}

// FirstLane returns the Lane of all that has no completion queue.
func (e *Engine) FirstLane() *Lane { return &e.lanes[0] }

// NewLane returns the Lane for a new completion queue.
func (e *Engine) NewLane() *Lane {
	n := e.lanesGiven.Add(1) - 1
	return &e.lanes[n%MaxLanes]
}

// WaitLane returns the Lane of all completion queues for which goroutines wait. One of these reads
// for all of them, so that the answers of all leave together.
func (e *Engine) WaitLane() *Lane {
	e.waitLane.once.Do(func() { e.waitLane.lane = e.NewLane() })
	return e.waitLane.lane
}

// Number returns l's number among those of the engine, less than MaxLanes.
func (l *Lane) Number() int { return l.number }

// Part returns the part of the process's numbers that queue pairs of l have. A stranger knows the
// part of a Lane only by a number of it.
func (l *Lane) Part() int { return l.eng.conns.partOf(l.number) }

// LaneSet is a set of Lanes, a bit for each by its number.
type LaneSet uint32

// AllLanes has every Lane, also those that were not given out.
const AllLanes LaneSet = 1<<MaxLanes - 1

// LanesOf returns the Lanes of a part.
func (e *Engine) LanesOf(part int) (s LaneSet) {
	for i := range e.lanes {
		if e.lanes[i].Part() == part {
			s |= 1 << i
		}
	}
	return s
}

// look finds out which other Lanes nobody polls: their polls have not gone on since the last look,
// policy.LaneLook ago.
func (l *Lane) look(now monotime.Time) {
	if len(l.eng.usedLanes()) == 1 || now.Sub(monotime.Time(l.looked.Load())) < policy.LaneLook {
		return
	}
	l.looked.Store(int64(now))
	serves := uint32(0)
	for i := range l.eng.lanes { // those that were not given out as well
		if o := &l.eng.lanes[i]; o != l {
			if polls := o.polls.Load(); l.seen[i].Swap(polls) == polls {
				serves |= 1 << i
			}
		}
	}
	if serves != l.serves.Load() {
		l.serves.Store(serves)
	}
}

// reads reports whether a thread that polls l reads for a set of Lanes: l is in it, or nobody polls
// any of them. Threads that poll another Lane of the set read for the rest of it.
func (l *Lane) reads(s LaneSet) bool {
	return s == AllLanes || s&(1<<l.number) != 0 || s&^LaneSet(l.serves.Load()) == 0
}

// A Divider is an Input that can have another one read the packets of some Lanes.
type Divider interface {
	Input
	// Divide has it do so for l, soon, if it can. It must not block.
	Divide(l *Lane)
}

// foundBusy notes that a thread that polls l found another one reading an input. If that is often,
// and threads poll other Lanes, the input is divided.
func (l *Lane) foundBusy(in Input) {
	polls := l.polls.Load()
	if polls-l.busySince.Load() > policy.BusyPolls {
		l.busySince.Store(polls)
		l.busy.Store(0)
	}
	if uint64(l.busy.Add(1)) < policy.BusyPolls/8 {
		return
	}
	l.busySince.Store(polls)
	l.busy.Store(0)
	if d, ok := in.(Divider); ok && l.othersPoll() {
		d.Divide(l)
	}
}

// othersPoll reports whether another Lane was polled before l last looked.
func (l *Lane) othersPoll() bool {
	used := LaneSet(1)<<len(l.eng.usedLanes()) - 1
	return used&^LaneSet(l.serves.Load())&^(1<<l.number) != 0
}

// count returns the number of polls, with those of all Lanes by Engine.Collect.
func (l *Lane) count() uint64 { return l.polls.Load() + l.eng.bg.polls.Load() }

// polled returns the number of polls of all Lanes, and of answers: a thread that answers many
// messages polls when it has done so.
func (e *Engine) polled() uint64 {
	n, used := e.bg.polls.Load()+e.answered(), e.usedLanes()
	for i := range used {
		n += used[i].polls.Load()
	}
	return n
}

// socketReads returns a number that changes only if a thread of the application has read the
// sockets, or answered.
func (e *Engine) socketReads() uint64 {
	n, used := e.bg.looks.Load()+e.answered(), e.usedLanes()
	rings := len(*e.rings.Load()) > 0
	for i := range used {
		n += used[i].looks.Load()
		if !rings {
			n += used[i].polls.Load()
		}
	}
	return n
}

// answered returns the number of answers that threads have posted or will not post.
func (e *Engine) answered() (n uint64) {
	used := e.usedLanes()
	for i := range used {
		n += uint64(used[i].joint.answered.Load()) + uint64(used[i].alone.Load())
	}
	return n
}
