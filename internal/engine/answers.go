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
// policy.AnswerGap ago. Lane.Flush, Settle and the background goroutine send the answers that an
// application leaves, as they do with delayed acknowledgements.

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

// postponeAnswer reports whether the work that was just posted waits for further answers.
func (c *Conn) postponeAnswer(now monotime.Time) bool {
	a := &c.answers
	if a.left == 0 {
		return false
	}
	a.left--
	gap := now.Sub(a.last)
	a.last = now
	if a.batch++; a.left == 0 || a.batch >= policy.AnswerBatch || gap > policy.AnswerGap {
		a.batch = 0
		return false
	}
	if a.waiting {
		return true
	}
	// The background goroutine flushes when its nap ends, at the latest: see DelayUnlock.
	a.waiting = c.lane.answers.add(c) && c.eng.bg.napping.Load()
	if !a.waiting {
		a.batch = 0
	}
	return a.waiting
}

// sendAnswers sends the answers that postponeAnswer has kept. It is called with c locked.
func (c *Conn) sendAnswers(now monotime.Time) {
	if c.answers.waiting {
		c.answers.waiting, c.answers.batch = false, 0
		if !c.pumping { // else the pumping thread sends them
			c.Flush(now)
		}
	}
}

// sendAnswers sends the answers of all Conns of l that wait.
func (l *Lane) sendAnswers() {
	now := monotime.Now()
	var list [maxDelayed]*Conn
	for _, c := range l.answers.takeAll(&list) {
		c.mu.Lock()
		if c.closed || !c.answers.waiting {
			c.mu.Unlock()
			continue
		}
		c.answers.waiting, c.answers.batch = false, 0
		c.PumpUnlock(now)
	}
}
