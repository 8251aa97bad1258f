// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"verbena/ib"
	"verbena/internal/engine/policy"
	"verbena/internal/monotime"
)

// A lone acknowledgement is delayed while a polling application looks at its
// completions:
//
//	Poll: a message arrives ──► completion, acknowledgement pending
//	  │ application answers ──► the answer goes out alone; its peer, which waits
//	  │                         for it, needs no acknowledgement for a while
//	  │ application polls on ─► Flush sends the acknowledgement, at once if there
//	  │                         was no answer, after policy.AckGrace if there was
//	  │                         (one poll later: it may poll several queues in turn)
//	  └ the next message comes: after an answer both are acknowledged together, until
//	                          policy.AckBatches are. The poll after the last one's answer
//	                          acknowledges them, while the peer is at work
//
// A peer may wait for the acknowledgement itself before it goes on, as perftest does: its next
// message comes only after the grace has run out. From then on the acknowledgement leaves with the
// answer, in one burst. After ever more messages the delay is tried again.
//
// If the application sleeps between messages its peer does, too, and two bursts would wake that
// twice. So the acknowledgement leaves with the answer, and before it if the application waits for
// events (ComesFirst).
//
// Where several messages come at once it leaves with their answers, too: beside them it costs
// little, and without it the peer's send queue would fill up.
//
// All other calls send delayed acknowledgements. The background goroutine sends them for an
// application that went away.

// DelayedAck is the acknowledgement of one Conn that may wait for the application. Guarded
// by the Conn's lock. It is used by DelayUnlock and the transport's NotePost, FlushOutput
// and FlushDelayedAck.
type DelayedAck struct {
	conn     *Conn  // immutable
	lane     *Lane  // immutable: of its completion queues
	listed   bool   // in Lane.delayed, or taken out by a flush that waits for the Conn's lock
	waiting  bool   // listed, and not sent meanwhile
	answered bool   // the application posted since
	messages int    // batches received since
	poll     uint64 // Lane.count when the last one was received
	psn      ib.PSN // to be acknowledged
	since    monotime.Time

	expired  int // times in a row that the grace ran out
	together int // messages to come whose acknowledgement leaves with the answer
	penalty  int // last value that together was set to
}

// NewDelayedAck returns the DelayedAck of a Conn whose completion queues have a Lane.
func NewDelayedAck(c *Conn, l *Lane) DelayedAck { return DelayedAck{conn: c, lane: l} }

// Lane returns the Lane of the Conn's completion queues.
func (l *DelayedAck) Lane() *Lane { return l.lane }

// Waiting reports whether the acknowledgement is delayed.
func (l *DelayedAck) Waiting() bool { return l.waiting }

// ComesFirst reports whether the acknowledgement goes before the answer. The threads of the
// application sleep, and so do those of its peer as a rule: each gets an event for the end of its
// send and one for the answer. An adapter acknowledges before the application sees the message, so
// programs with a completion queue for each direction expect the events in that order. A thread
// that sleeps between polls needs no order. Behind the answer the acknowledgement is a part of its
// burst: one packet to the system.
func (l *DelayedAck) ComesFirst() bool {
	a := &l.conn.eng.arrival
	return a.sleepy.Load() && !a.napped.Load()
}

// Stop ends the delay: the caller sends the acknowledgement.
func (l *DelayedAck) Stop() { l.waiting = false }

// NotePost notes an answer. With joins an acknowledgement that covers as many messages as it may
// leaves with it, not after it.
func (l *DelayedAck) NotePost(joins bool) {
	l.answered = true
	if l.together > 0 || joins && l.full() {
		l.waiting = false
	}
}

// expire notes that the grace ran out: the peer may have been waiting for the
// acknowledgement.
func (l *DelayedAck) expire() {
	if l.expired++; l.expired < policy.AckMisses {
		return
	}
	l.expired = 0
	l.penalty = min(max(2*l.penalty, policy.MinTogether), policy.MaxTogether)
	l.together = l.penalty
}

// maxDelayed limits the acknowledgements, and the connections, that wait; others send at once.
const maxDelayed = 64

// delayed lists the acknowledgements, or the connections with answers, that wait.
type delayed[T any] struct {
	n atomic.Int32

	mu   sync.Mutex
	list [maxDelayed]*T // guarded by mu
}

// add takes d unless there is no room.
func (l *delayed[T]) add(d *T) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.n.Load()
	if n == maxDelayed {
		return false
	}
	l.list[n] = d
	l.n.Store(n + 1)
	return true
}

// takeAll empties the list.
func (l *delayed[T]) takeAll(into *[maxDelayed]*T) []*T {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := copy(into[:], l.list[:l.n.Load()])
	clear(l.list[:n])
	l.n.Store(0)
	return into[:n]
}

// DelayUnlock delays the acknowledgement of psn, which is all that the Conn has to send, and
// releases the lock that the caller holds. If it may not be delayed it returns false, and the Conn
// stays locked.
func (l *DelayedAck) DelayUnlock(now monotime.Time, psn ib.PSN) bool {
	c := l.conn
	e := c.eng
	if c.machine.NextTimeout().Before(c.armed) {
		return false
	}
	if l.waiting && psn == l.psn { // the received packet was not a request
		c.DeliverUnlock()
		return true
	}
	if l.together > 0 {
		l.together--
	}
	if e.arrival.sleepy.Load() || c.answers.left > 1 {
		l.together = max(l.together, 1)
	}
	if l.waiting {
		if !l.answered {
			return false
		}
		l.expired, l.penalty = 0, 0 // the two sides do take turns
		if l.full() {
			return false // the poll that was to send it has not come
		}
	} else {
		// The background goroutine flushes when its nap ends, at the latest.
		if !l.list() || !e.bg.guards() {
			return false
		}
		l.messages = 0
	}
	l.waiting, l.answered, l.psn, l.since, l.poll = true, false, psn, now, l.lane.count()
	l.messages++
	l.lane.rest.Store(0)
	c.DeliverUnlock()
	return true
}

// list enters l in Lane.delayed, unless it is there. It reports false if there is no room.
func (l *DelayedAck) list() bool {
	l.listed = l.listed || l.lane.delayed.add(l)
	return l.listed
}

// Flush sends the acknowledgements that Poll delayed and whose time has come, and all answers.
func (l *Lane) Flush() {
	l.sendAnswers()
	if l.delayed.n.Load() == 0 || l.count()%policy.AckPolls != 0 {
		return
	}
	if rest := l.rest.Load(); rest <= 0 || int64(monotime.Now()) >= rest {
		l.flush(policy.AckGrace)
	}
}

// Flush is Lane.Flush for all Lanes.
func (e *Engine) Flush() {
	for i := range e.usedLanes() {
		e.lanes[i].Flush()
	}
}

// settleServed sends all that is delayed of Lanes that nobody polls.
func (l *Lane) settleServed() {
	for serves := l.serves.Load(); serves != 0; serves &= serves - 1 {
		l.eng.lanes[bits.TrailingZeros32(serves)].settle()
	}
}

// delays reports whether acknowledgements or answers are delayed.
func (e *Engine) delays() bool {
	for i := range e.usedLanes() {
		if l := &e.lanes[i]; l.delayed.n.Load() > 0 || l.answers.n.Load() > 0 {
			return true
		}
	}
	return false
}

// Settle sends all acknowledgements that polls delayed, and all answers. The application has turned
// to something else, which may take long, or notify its peer in another way. An adapter would have
// acknowledged before the application saw its completion.
func (e *Engine) Settle() {
	for i := range e.usedLanes() {
		e.lanes[i].settle()
	}
}

// settle is Settle for one Lane.
func (l *Lane) settle() {
	l.sendAnswers()
	if l.delayed.n.Load() > 0 {
		l.flush(0)
	}
}

// flush sends the acknowledgements of connections that did not answer, or that answered longer ago
// than grace.
func (l *Lane) flush(grace monotime.Duration) {
	now := monotime.Now()
	send := Joint{Now: now}
	var list [maxDelayed]*DelayedAck
	l.rest.Store(flushing)
	rest := monotime.Never
	for _, d := range l.delayed.takeAll(&list) {
		c := d.conn
		c.mu.Lock()
		d.listed = false
		switch {
		case c.closed || !d.waiting:
			c.mu.Unlock()
		case grace > 0 && d.mayStillAnswer(now, grace) && d.list() &&
			l.eng.bg.guards(): // in this order, see guards
			if rest = min(rest, d.since.Add(grace)); !d.answered {
				rest = 0
			}
			c.mu.Unlock()
		default:
			if grace > 0 && d.answered && !d.full() {
				d.expire()
			}
			d.waiting = false
			send.PumpUnlock(c)
		}
	}
	l.rest.CompareAndSwap(flushing, int64(rest)) // else something was delayed meanwhile
	send.Finish()
}

// flushing is Lane.rest during a flush.
const flushing = -1

// mayStillAnswer reports whether the acknowledgement should wait on: the application
// has just got its completions, or it answered and its peer is at work.
func (l *DelayedAck) mayStillAnswer(now monotime.Time, grace monotime.Duration) bool {
	if !l.answered {
		return l.lane.count() < l.poll+2
	}
	return !l.full() && now.Sub(l.since) < grace
}

// full reports whether the acknowledgement covers as many messages as it may.
func (l *DelayedAck) full() bool { return l.messages >= policy.AckBatches }
