// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"verbena/internal/engine"
	"verbena/internal/monotime"
	"verbena/internal/transport/shm"
)

// Nothing is lost in a ring, and its end shows the reader's. So if no acknowledgement comes, there
// are three causes. The peer's process is stopped, it waits for a processor, or its queue pair is
// not in a state to answer. A time-out is right in the last case only. Before it takes place the
// writer asks, by an entry behind all that it has written:
//
//	timer due ──► askFirst: a question ──► timer due ──► no answer: the process does not run; put off
//	                                                └──► an answer ──► timer due, no acknowledgement: time out
//
// The reader answers when it has handled everything before the question and sent its pending output
// (shm.In.read). A thread of it may have lost its processor before it sent that, so one more wait
// follows. The next time-out needs a question of its own.

// question is a connection's query whether its peer runs. Guarded by Conn.mu.
type question struct {
	number   uint64        // of the ring's; 0: none
	timer    monotime.Time // the machine's since; another says that an acknowledgement came
	answered bool
}

// askFirst puts off the machine's acknowledgement timer if it is due. It does not if the peer's
// process has come to all packets sent and does not answer. It reports whether the process may have
// to be woken.
func (c *Conn) askFirst(now monotime.Time) (wake bool) {
	a, q, o := c.acked, &c.question, c.ring
	if a == nil || now.Before(a.ACKTimer()) {
		return false
	}
	if _, ended := o.Ended(); ended {
		a.PutOff(now, true) // FlushOutput ends the queue pair, soon or at once
		return false
	}
	fresh := q.number == 0 || q.timer != a.ACKTimer()
	number := q.number
	if fresh {
		number = 0
	}
	number, answered, ok := o.Ask(number)
	if !ok {
		return false
	}
	if fresh {
		*q = question{number: number}
	}
	before, asked := q.answered, q.timer == 0
	q.answered = answered
	if before && !c.roce.rings.Unread(o.Slot()) {
		*q = question{}
		return false
	}
	behind := q.number == 0 || !asked && !q.answered
	a.PutOff(now, behind)
	q.timer = a.ACKTimer()
	if behind {
		c.roce.rings.Count.Behind.Add(1)
	}
	return !q.answered
}

// BeforeTimeout implements engine.TimeoutGuard.
func (c *Conn) BeforeTimeout(now monotime.Time) (after func()) {
	if c.ring != nil {
		if c.askFirst(now) {
			return c.ring.WakeIfAsleep
		}
		return nil
	}
	if a := c.acked; a != nil && !now.Before(a.ACKTimer()) && !c.roce.pace.take(now) {
		a.Postpone(now)
		c.roce.count.paced.Add(1)
	}
	return nil
}

// peersEnded notifies the connections to a process that it has ended. It is called by the
// background goroutine.
func (t *Transport) peersEnded(o *shm.Out) {
	t.eng.EachConn(func(found *engine.Conn) {
		c, ok := ConnOf(found)
		if !ok {
			return
		}
		c.Lock()
		relayed := c.passes != nil && c.passes.ended(o)
		if c.Closed() || c.ring != o && !relayed {
			c.Unlock()
			return
		}
		c.PumpUnlock(monotime.Now())
	})
}
