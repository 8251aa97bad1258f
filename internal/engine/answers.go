// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"verbena/internal/engine/policy"
	"verbena/internal/monotime"
)

// Answers leave together where several messages have come at once over a socket. A server polls
// their completions and posts an answer to each, and a system call for each answer would be most of
// its work:
//
//	Port.read:  16 messages arrive        ─► Heard: 16 to be answered
//	post        15 times                  ─► in the send queue
//	post        the last, or AnswerBatch  ─► all are written, as one burst
//
// An answer waits only while the application is quick: its last post, or the arrival, is at most
// policy.AnswerGap ago. A poll that reads, Settle and the background goroutine send the answers
// that an application leaves.

// answers is the state of one Conn, guarded by its lock.
type answers struct {
	received uint32        // the machine's count at the last arrival
	left     int           // messages that came and are not answered
	batch    int           // answers that wait
	last     monotime.Time // when the application went on: after the arrival, or its last post
	waiting  bool          // in Lane.answers, and not sent meanwhile
}

// Heard notes the messages of an arrival, which the application may answer together. It is called
// with c locked.
func (c *Conn) Heard(now monotime.Time) {
	a, n := &c.answers, c.machine.Received()
	if n == a.received {
		return
	}
	a.left = min(a.left+int(n-a.received), maxUnanswered)
	a.received, a.last = n, now
}

// maxUnanswered bounds answers.left in a connection whose messages have no answers.
const maxUnanswered = 64

// postponeAnswer reports whether the work requests that were just posted wait for further answers.
func (c *Conn) postponeAnswer(now monotime.Time, posted int) bool {
	a := &c.answers
	if a.left == 0 {
		return false
	}
	a.left = max(a.left-posted, 0)
	a.batch += posted
	if now.Sub(a.last) > policy.AnswerGap {
		a.left = 0 // an application that computes, or answers nothing
	}
	a.last = now
	if a.left == 0 || a.batch >= policy.AnswerBatch {
		a.batch = 0
		return false
	}
	if a.waiting {
		return true
	}
	// An application that waits in an epoll set of its own may do so without another call. The
	// background goroutine flushes when its nap ends, at the latest: see DelayUnlock.
	a.waiting = c.eng.arrival.watchers.Load() == 0 && c.lane.answers.add(c) &&
		c.eng.bg.napping.Load()
	return a.waiting
}

// sendAnswers sends the answers that postponeAnswer has kept. It is called with c locked.
func (c *Conn) sendAnswers(now monotime.Time) {
	if c.answers.waiting {
		if !c.pumping { // else the pumping thread sends them
			c.Flush(now)
		}
	}
}

// sendAnswers is Lane.sendAnswers for all Lanes.
func (e *Engine) sendAnswers() {
	for i := range e.usedLanes() {
		e.lanes[i].sendAnswers()
	}
}

// sendAnswers sends the answers of all Conns of l that wait.
func (l *Lane) sendAnswers() {
	if l.answers.n.Load() == 0 {
		return
	}
	now := monotime.Now()
	var list [maxDelayed]*Conn
	for _, c := range l.answers.takeAll(&list) {
		c.mu.Lock()
		if c.closed || !c.answers.waiting {
			c.mu.Unlock()
			continue
		}
		c.PumpUnlock(now)
	}
}
