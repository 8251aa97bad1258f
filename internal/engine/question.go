// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"slices"

	"verbena/internal/monotime"
)

// Nothing is lost in a ring, and its end tells of the reader's. So where no
// acknowledgement comes, the peer's process is stopped, or waits for a processor, or
// its queue pair is not in a state to answer. A time-out is right in the last case
// only. Before it takes place the writer asks, by an entry behind all that it has
// written:
//
//	timer due ──► askFirst: a question ──► timer due ──► no answer: the process does not run; put off
//	                                                └──► an answer ──► timer due, no acknowledgement: time out
//
// The reader answers when it has handled what is before the question and sent what
// it owed (ringIn.read). A thread of it may have lost its processor before it sent
// that, so one more wait follows. The next time-out needs a question of its own.

// question is the one by which a connection asks whether its peer runs. Guarded by
// Conn.mu.
type question struct {
	number   uint64        // of the ring's; 0: none
	timer    monotime.Time // the machine's since; another says that an acknowledgement came
	answered bool
}

// askFirst puts off the machine's acknowledgement timer, if it is due, unless the
// peer's process has come to all that was sent and does not answer. It reports
// whether the process may have to be woken.
func (c *roceConn) askFirst(now monotime.Time) (wake bool) {
	a, q, o := c.acked, &c.question, c.ring
	if a == nil || now.Before(a.ACKTimer()) {
		return false
	}
	if until, ended := o.mourned(); ended && now.Before(until) {
		a.PutOff(now, true) // drain ends the queue pair
		return false
	}
	o.mu.Lock()
	if o.gone {
		o.mu.Unlock()
		return false
	}
	if q.timer != a.ACKTimer() || q.number == 0 {
		*q = question{number: o.tx.Ask()} // 0 if the ring is full
	}
	before, asked := q.answered, q.timer == 0
	q.answered = q.number != 0 && o.tx.Answered(q.number)
	o.mu.Unlock()
	if before && !c.eng.local.unread(o.slot) {
		*q = question{}
		return false
	}
	behind := q.number == 0 || !asked && !q.answered
	a.PutOff(now, behind)
	q.timer = a.ACKTimer()
	if behind {
		c.eng.wire.localBehind.Add(1)
	}
	return !q.answered
}

// unread reports whether something of a process waits to be read, or is being read.
func (l *local) unread(slot int) bool {
	return slices.ContainsFunc(*l.rings.Load(), func(r *ringIn) bool {
		if r.slot != slot {
			return false
		}
		if !r.rxMu.TryLock() {
			return true
		}
		defer r.rxMu.Unlock()
		return !r.closed && r.rx.Waiting()
	})
}

// answer tells the writer, which has asked, that all it has written was handled. What
// was put off is sent first; while something waits for another thread, or for room, the
// next look answers. The caller holds rxMu.
func (r *ringIn) answer() {
	l := &r.eng.local
	r.eng.Settle()
	l.mu.Lock()
	back := l.out[r.slot]
	l.mu.Unlock()
	if l.waking.Load() == 0 && (back == nil || !back.full()) {
		r.rx.Answer()
	}
}

// full reports whether the ring had no room when it was last written to, and has none.
func (o *ringOut) full() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.gone || o.since == 0 {
		return false
	}
	r := o.roomLocked()
	return r == ringFull || r == ringStuck
}

// wakeIfAsleep ends the reader's sleep if it sleeps.
func (o *ringOut) wakeIfAsleep() {
	o.mu.Lock()
	wake := !o.gone && o.tx.MustWake()
	o.mu.Unlock()
	if wake {
		o.wake()
	}
}

// mourn tells the connections to a process that it has ended, whose last words are
// read first. It is called by the background goroutine.
func (l *local) mourn(o *ringOut) {
	for _, r := range *l.rings.Load() {
		if r.slot == o.slot {
			r.readAll()
		}
	}
	l.eng.conns.each(func(c *Conn) {
		if c.roce == nil {
			return
		}
		c.mu.Lock()
		if c.closed || c.roce.ring != o {
			c.mu.Unlock()
			return
		}
		c.pump(monotime.Now())
	})
}
