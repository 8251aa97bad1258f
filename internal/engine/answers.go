// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"sync/atomic"
	"time"

	"verbena/internal/engine/policy"
	"verbena/internal/monotime"
)

// Answers leave together where several messages have come at once. A server polls their completions
// and posts an answer to each. A system call for each answer, or a burst of a ring, would be most
// of its work:
//
//	Port.read:  16 messages arrive        ─► Heard: 16 to be answered
//	post        15 times                  ─► in the send queue
//	post        the last, or AnswerBatch  ─► all are written, as one burst
//
// The answers of Joiners leave together, also those of several queue pairs of a Lane. Those of
// another transport, and those to a ring, wait for the answers of their own queue pair. A ring has
// smaller bursts: its reader on another core begins with the first one while the next is posted.
//
// An answer waits only while the application is quick: its last post, or the end of the read, is
// at most policy.AnswerGap ago. A longer gap sends the answers that wait. The first such gap after
// an arrival may be another thread's turn on the core, so the answers after it wait again. A poll
// that reads, Settle and the background goroutine send the answers that an application leaves.
//
// Some messages have no answer. An arrival forgets those that came before the last poll but one:
// the application has got them since, and has polled again.

// answers is the state of one Conn, guarded by its lock.
type answers struct {
	received uint32        // the machine's count at the last arrival
	left     int           // messages that came, and are neither answered nor forgotten
	news     int           // messages that came since the poll before the last arrival
	poll     uint64        // Lane.count at the last arrival
	batch    int           // answers that wait
	last     monotime.Time // when the application went on: the arrival, or its last post
	waiting  bool          // in Lane.answers, and not sent meanwhile
	ring     bool          // the last messages came by a ring
	slow     bool          // there was a gap since the last arrival
}

// jointAnswers is the state of the Joiners of a Lane. Of several threads' changes some may be lost:
// answers then leave sooner or later than they might.
type jointAnswers struct {
	heard    atomic.Uint32 // messages that came
	answered atomic.Uint32 // of them: answered or forgotten
	before   atomic.Uint32 // heard, when the application last polled for more
	batch    atomic.Int32  // answers that wait
	last     atomic.Int64  // when the application went on
	slow     atomic.Bool   // there was a gap since the last arrival
}

// left returns the number of messages that the application may answer.
func (j *jointAnswers) left() int { return int(int32(j.heard.Load() - j.answered.Load())) }

// forget notes that the application polls for more. Messages that had come when it did so before
// are answered by now, if they are answered at once. Another thread may have read since.
func (j *jointAnswers) forget() {
	if j.left() == 0 {
		return
	}
	before := j.before.Swap(j.heard.Load())
	if int32(before-j.answered.Load()) > 0 {
		j.answered.Store(before)
	}
}

// Heard notes the messages of an arrival, which the application may answer together. It is called
// with c locked.
func (c *Conn) Heard(now monotime.Time) { c.heard(now, false) }

// HeardInRing is Heard for messages that came by a ring.
func (c *Conn) HeardInRing(now monotime.Time) { c.heard(now, true) }

func (c *Conn) heard(now monotime.Time, ring bool) {
	a, n := &c.answers, c.machine.Received()
	if n == a.received {
		return
	}
	news := int(n - a.received)
	if !c.lane.hears.Load() {
		c.lane.hears.Store(true)
	}
	c.forget()
	a.left, a.news = a.left+news, a.news+news
	a.received, a.last, a.ring, a.slow = n, now, ring, false
	if c.joins() {
		j := &c.lane.joint
		j.heard.Add(uint32(news))
		j.last.Store(int64(now))
		j.slow.Store(false)
	}
}

// readEnded notes that a thread which polls l has read messages from sockets. It may have taken
// longer for them than an application may take to answer.
func (l *Lane) readEnded(now monotime.Time) { l.read.Store(int64(now)) }

// joins reports whether c's answers leave with those of other queue pairs.
func (c *Conn) joins() bool { return c.joiner != nil && !c.answers.ring }

// forget drops the messages that came before the last poll but one. Those that another thread read
// before the last poll may have reached the application by that.
func (c *Conn) forget() {
	a, poll := &c.answers, c.lane.count()
	switch poll - a.poll {
	case 0:
		return
	case 1:
		a.left = min(a.left, a.news)
	default:
		a.left = 0
	}
	a.news, a.poll = 0, poll
}

// postponeAnswer reports whether the work requests that were just posted wait for further answers.
func (c *Conn) postponeAnswer(now monotime.Time, posted int) bool {
	a := &c.answers
	if a.left == 0 {
		return false
	}
	n := min(posted, a.left)
	a.left -= n
	a.batch += posted
	left, batch, most, last := a.left, a.batch, policy.AnswerBatch, a.last
	a.last = now
	last = max(last, monotime.Time(c.lane.read.Load()))
	if a.ring {
		most = policy.RingTurn
	}
	joins := c.joins()
	if joins {
		j := &c.lane.joint
		j.answered.Add(uint32(n))
		left, batch = j.left(), int(j.batch.Add(int32(posted)))
		last = max(last, monotime.Time(j.last.Swap(int64(now))))
	} else if !a.ring {
		c.lane.alone.Add(uint32(n))
	}
	if gap := now.Sub(last); gap > policy.AnswerGap {
		left = 0
		if c.slowAgain(joins) || gap > policy.Nap {
			a.left = 0 // an application that computes, or answers nothing
			if joins {
				c.lane.joint.answered.Store(c.lane.joint.heard.Load())
			}
		}
	}
	if left <= 0 || batch >= most {
		a.batch = 0
		if joins {
			c.lane.joint.batch.Store(0)
		}
		return false
	}
	if a.waiting {
		return true
	}
	// An application that waits in an epoll set of its own may do so without another call. The
	// background goroutine flushes when its nap ends, at the latest.
	a.waiting = c.eng.arrival.watchers.Load() == 0 && c.lane.answers.add(c) &&
		c.eng.bg.guards()
	if a.waiting {
		c.eng.board.SetSuffices(false) // a C program's next empty poll sends them
	}
	return a.waiting
}

// slowAgain notes a gap, and reports whether it is not the first one since the last arrival.
func (c *Conn) slowAgain(joins bool) bool {
	if joins {
		return c.lane.joint.slow.Swap(true)
	}
	again := c.answers.slow
	c.answers.slow = true
	return again
}

// joinAnswers reports whether c, whose answer does not wait any longer, is to leave with those of
// other queue pairs that wait: Lane.sendAnswers sends all.
func (c *Conn) joinAnswers() bool {
	if !c.joins() || c.pumping || c.lane.answers.n.Load() == 0 {
		return false
	}
	c.answers.waiting = c.answers.waiting || c.lane.answers.add(c)
	return c.answers.waiting
}

// answerWritten notes that a write has ended, which took its time.
func (c *Conn) answerWritten() {
	if c.answers.left > 0 {
		c.answers.last = monotime.Now()
	}
	if j := &c.lane.joint; c.joins() && j.left() > 0 {
		j.last.Store(int64(monotime.Now()))
	}
}

// answersLeave notes that a thread sends the answers that wait. The next one that waits enters
// Lane.answers again.
func (c *Conn) answersLeave() { c.answers.waiting, c.answers.batch = false, 0 }

// sendAll sends all output that waits: once c is closed or in another state it may not be sent any
// more. It waits as an answer by postponeAnswer, as a delayed acknowledgement, for a pumping
// thread, or for room in a queue. sendAll is called with c locked, and may unlock it meanwhile. The
// caller has no Joint to finish.
func (c *Conn) sendAll(now monotime.Time) {
	if c.answers.waiting || c.more {
		c.AwaitPump()
		c.Flush(now)
	}
	c.transport.FlushDelayedAck(now)
	q, ok := c.transport.(Queue)
	for ok && c.retry != monotime.Never && q.HeldUp() {
		c.mu.Unlock()
		time.Sleep(time.Duration(policy.RingRetry))
		c.mu.Lock()
		c.AwaitPump()
		c.Flush(monotime.Now())
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
	send := Joint{Now: monotime.Now()}
	var list [maxDelayed]*Conn
	for _, c := range l.answers.takeAll(&list) {
		c.mu.Lock()
		if c.closed || !c.answers.waiting {
			c.mu.Unlock()
			continue
		}
		send.PumpUnlock(c)
	}
	send.Finish()
}
