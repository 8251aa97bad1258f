// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"runtime"
	"sync"
	"sync/atomic"

	"verbena/ib"
	"verbena/internal/monotime"
)

// A lone acknowledgement is put off while a polling application looks at its
// completions:
//
//	Poll: a message arrives ──► completion, acknowledgement owed
//	  │ application answers ──► the answer goes out alone; its peer, which waits
//	  │                         for it, needs no acknowledgement for a while
//	  │ application polls on ─► Flush sends the acknowledgement, at once if there
//	  │                         was no answer, after lateGrace if there was
//	  │                         (one poll later: it may poll several queues in turn)
//	  └ the next message comes: after an answer both are acknowledged together
//
// A peer may wait for the acknowledgement itself before it goes on, as perftest
// does. It shows: its next message comes only after the grace has run out.
// From then on the acknowledgement leaves with the answer, in one train, and
// after ever more messages it is tried again.
//
// Other calls than these settle what is put off, and the background goroutine
// flushes for an application that went away.

// late is what a connection knows of its acknowledgement put off. Guarded by
// Conn.mu.
type late struct {
	waiting  bool   // in Engine.late, and not sent meanwhile
	answered bool   // the application posted since
	messages int    // batches received since
	poll     uint64 // the poll that received the last one
	psn      ib.PSN // to be acknowledged
	since    monotime.Time

	expired  int // times in a row that the grace ran out
	together int // messages to come whose acknowledgement leaves with the answer
	penalty  int // what together was set to last
}

// Bounds of waiting. The grace is several times a round trip between two
// polling ends: within it the next message comes, if the two talk in turns.
const (
	lateGrace   = 50 * monotime.Microsecond
	lateBatches = 8
	latePolls   = 4  // empty polls between looks: a look costs as much as half a poll
	maxLate     = 16 // connections that wait at a time; more are pumped at once

	maxExpired  = 3 // in a row: one alone is a peer that was held up
	minTogether = 64
	maxTogether = 1 << 16 // a few graces lost among so many messages are nothing
)

// expire notes that the grace ran out: the peer may have been waiting for the
// acknowledgement.
func (l *late) expire() {
	if l.expired++; l.expired < maxExpired {
		return
	}
	l.expired = 0
	l.penalty = min(max(2*l.penalty, minTogether), maxTogether)
	l.together = l.penalty
}

// posted notes an answer.
func (l *late) posted() {
	l.answered = true
	if l.together > 0 {
		l.waiting = false
	}
}

// lateConns are the connections whose acknowledgements wait.
type lateConns struct {
	n atomic.Int32

	mu   sync.Mutex
	list [maxLate]*roceConn // guarded by mu
}

// add takes c unless there is no room.
func (l *lateConns) add(c *roceConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.n.Load()
	if n == maxLate {
		return false
	}
	l.list[n] = c
	l.n.Store(n + 1)
	return true
}

// takeAll empties the list.
func (l *lateConns) takeAll(into *[maxLate]*roceConn) []*roceConn {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := copy(into[:], l.list[:l.n.Load()])
	clear(l.list[:n])
	l.n.Store(0)
	return into[:n]
}

// putOff reports whether c, which is locked, may send what it owes later. If
// so, c is unlocked.
func (e *Engine) putOff(now monotime.Time, c *roceConn) bool {
	psn, ok := c.packets.Patient()
	if !ok || c.packets.NextTimeout().Before(c.armed) {
		return false
	}
	if c.late.waiting && psn == c.late.psn { // what came was not a request
		c.deliver()
		return true
	}
	if c.late.together > 0 {
		c.late.together--
	}
	if c.late.waiting {
		if !c.late.answered {
			return false
		}
		c.late.expired, c.late.penalty = 0, 0 // they do talk in turns
		if c.late.messages == lateBatches {
			return false
		}
	} else {
		// The background goroutine flushes when its nap ends, at the latest. If it
		// does not nap it may have looked already, and then blocks without a limit.
		if !e.late.add(c) || !e.bg.napping.Load() {
			return false
		}
		c.late.messages = 0
	}
	c.late.waiting, c.late.answered, c.late.psn, c.late.since, c.late.poll = true, false, psn, now, e.bg.polls.Load()
	c.late.messages++
	c.deliver()
	return true
}

// Flush sends the acknowledgements that Poll put off and whose time has come.
func (e *Engine) Flush() {
	if e.late.n.Load() > 0 && e.bg.polls.Load()%latePolls == 0 {
		e.flush(lateGrace)
	}
}

// Settle sends all that Poll put off: the application has turned to something
// else, which may take long, or tell its peer to go on. An adapter would have
// acknowledged before the application saw its completion.
func (e *Engine) Settle() {
	if e.late.n.Load() > 0 {
		e.flush(0)
	}
}

// Leave sends what is owed before the process exits, also by whoever is at it now:
// the application may have seen a completion before its message was acknowledged.
func (e *Engine) Leave() {
	until := monotime.Now().Add(leavePatience)
	finish := func(in input) {
		for in.tryPoll(false) == busy && monotime.Now().Before(until) {
			runtime.Gosched()
		}
	}
	for _, r := range *e.local.rings.Load() {
		finish(r)
	}
	for _, in := range *e.inputs.Load() {
		finish(in)
	}
	e.Settle()
}

// leavePatience bounds how long an exit waits: one who reads is done in a
// fraction of it.
const leavePatience = 10 * monotime.Millisecond

// flush sends those of connections that did not answer, or that answered longer
// ago than grace.
func (e *Engine) flush(grace monotime.Duration) {
	now := monotime.Now()
	var list [maxLate]*roceConn
	for _, c := range e.late.takeAll(&list) {
		c.mu.Lock()
		switch {
		case c.closed || !c.late.waiting:
			c.mu.Unlock()
		case grace > 0 && c.mayStillAnswer(now, grace) && e.late.add(c) && e.bg.napping.Load(): // as in putOff
			c.mu.Unlock()
		default:
			if grace > 0 && c.late.answered {
				c.late.expire()
			}
			c.late.waiting = false
			c.pump(now)
		}
	}
}

// mayStillAnswer reports whether what c owes should wait on: the application
// has just got its completions, or it answered and its peer is at work.
func (c *roceConn) mayStillAnswer(now monotime.Time, grace monotime.Duration) bool {
	if !c.late.answered {
		return c.eng.bg.polls.Load() < c.late.poll+2
	}
	return now.Sub(c.late.since) < grace
}
