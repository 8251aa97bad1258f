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
//	                        rings of all Lanes ├─► other inputs
//	thread 2 ─ Lane.Poll ─► rings of its Lane ─┘
//
// No thread has to poll a queue. A Lane that nobody polls is served by those that poll others.
//
// Lanes are a matter of speed: each method is right on any Lane, from any number of threads.
type Lane struct {
	eng    *Engine // immutable
	number int     // immutable: in Engine.lanes

	_ [64]byte // the threads of other Lanes read other cache lines

	polls atomic.Uint64 // calls of Poll; see count

	// atomic, of the thread that polls; of several threads' looks some may be lost
	looked atomic.Int64            // when the other Lanes were last looked at
	seen   [MaxLanes]atomic.Uint64 // their polls then
	serves atomic.Uint32           // a bit for each Lane that nobody polls

	delayed delayed[DelayedAck]
	answers delayed[Conn]
	joint   jointAnswers
	alone   atomic.Uint32 // answers that a socket takes from one queue pair at a time
	read    atomic.Int64  // when a thread last ended a read of sockets that found messages

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

// look finds out which other Lanes nobody polls: their polls have not gone on since the last look,
// policy.LaneLook ago.
func (l *Lane) look(now monotime.Time) {
	used := l.eng.usedLanes()
	if len(used) == 1 || now.Sub(monotime.Time(l.looked.Load())) < policy.LaneLook {
		return
	}
	l.looked.Store(int64(now))
	serves := uint32(0)
	for i := range used {
		if o := &used[i]; o != l {
			if polls := o.polls.Load(); l.seen[i].Swap(polls) == polls {
				serves |= 1 << i
			}
		}
	}
	if serves != l.serves.Load() {
		l.serves.Store(serves)
	}
}

// reads reports whether a thread that polls l reads for a Lane; nil is that of all.
func (l *Lane) reads(o *Lane) bool {
	return o == nil || o == l || l.serves.Load()&(1<<o.number) != 0
}

// count returns the number of polls, with those of all Lanes by Engine.Collect.
func (l *Lane) count() uint64 { return l.polls.Load() + l.eng.bg.polls.Load() }

// polled returns the number of polls of all Lanes, and of answers: a thread that answers many
// messages polls when it has done so.
func (e *Engine) polled() uint64 { return e.passes(1) + e.answered() }

// socketReads returns a number that changes only if a thread of the application has read the
// sockets, or answered. Beside rings most polls read no socket: it counts those that always do.
func (e *Engine) socketReads() uint64 {
	every := uint64(1)
	if len(*e.rings.Load()) > 0 {
		every = policy.SocketPolls
	}
	return e.passes(every) + e.answered()
}

// passes returns the number of multiples of every that the polls of the Lanes have passed.
func (e *Engine) passes(every uint64) uint64 {
	n, used := e.bg.polls.Load()/every, e.usedLanes()
	for i := range used {
		n += used[i].polls.Load() / every
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
