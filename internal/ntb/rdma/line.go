// SPDX-License-Identifier: BSD-2-Clause

package rdma

import (
	"verbena/internal/ntb/channel"
	wire "verbena/internal/wire/ntb"
)

// A short SEND is one line of memory that changes owner once, where both nodes map the
// windows and its receiver polls:
//
//	QP.Send     ── WQE, bytes, mark in one line ──► rqp.takeLine ─► receive completes
//	                                                   │ owed
//	QP.takeDone ◄── WQEDone of a WQE the other way ────┤
//	            ◄── words, doorbell, signal ───────────┘ Settle: nobody answered
//
// A SEND completes before its answer does. Programs rely on it: an adapter acknowledges before
// the application can answer.
//
// The receiver looks at the rings that were in use last, and marks them for their writers
// (wire.WatchedWord), which then ring no doorbell. A receiver that stops looking takes the mark
// back first and then looks once more, as one that goes to sleep does. A writer writes first and
// then looks whether it must ring.

// Bounds of looking at rings.
const (
	maxWatched = 8
	// staleTakes is the number of messages found elsewhere after which a ring gives up its place.
	staleTakes = 1 << 10
	// maxTake bounds the requests of a ring that one look executes.
	maxTake = 16
)

// Take executes the short SENDs in the watched rings, and returns how many. It leaves all other
// requests to PollOutput; see Pending.
func (n *Node) Take() (taken int) {
	if n.ch.State() != channel.Up {
		return 0
	}
	for i := 0; i < len(n.watched); i++ {
		r := n.watched[i]
		k := r.take()
		if taken += k; k > 0 {
			n.takes++
			r.used = n.takes
		}
	}
	return taken
}

func (r *rqp) take() (k int) {
	for ; k < maxTake && r.next(); k++ {
		if !r.takeLine() {
			r.kick()
			return k + 1
		}
		if r.taken.Since(r.answered) >= r.cap/4 {
			r.owes = true
			r.kick()
		}
	}
	return k
}

// takeLine executes the request at taken, if it is a short SEND that finds a receive.
func (r *rqp) takeLine() bool {
	n, e := r.node, &r.node.wqe
	q := r.q
	if q == nil || q.QPN != r.dest || q.gone {
		if q = n.byQPN[r.dest]; q == nil {
			return false
		}
		r.q = q
	}
	if !n.ch.Own().LoadLine(r.wqesAt+wire.WQEBytes*uint64(r.taken.Slot(r.cap)), &n.line) ||
		!e.ParseLine(&n.line) || e.Mark.Index() != r.taken || !q.servedBy(r) {
		return false
	}
	if q.resp.op != 0 || !q.RecvHeld && q.RQ.Len() == 0 {
		return false
	}
	q.server = r
	if e.Flags&wire.WQEDone != 0 {
		q.takeDone(e.Done)
	}
	q.Count[RcvdPieces]++
	switch s, _ := q.execute(e, nil); s {
	case wire.StatusDone:
		r.taken++
	case wire.StatusRNR: // of a shared queue, that another one has emptied
		q.Count[RcvdPieces]--
		return false
	default:
		r.refuse(s)
	}
	return true
}

// Marked reports whether Take would find something.
func (n *Node) Marked() bool {
	if n.ch.State() != channel.Up {
		return false
	}
	for _, r := range n.watched {
		if r.next() {
			return true
		}
	}
	return false
}

// Settle makes the next PollOutput answer all requests that Take left unanswered.
func (n *Node) Settle() {
	for _, r := range n.watched {
		if r.answered != r.taken {
			r.owes = true
			r.kick()
		}
	}
}

// Owes reports whether there is something to Settle.
func (n *Node) Owes() bool {
	for _, r := range n.watched {
		if r.answered != r.taken {
			return true
		}
	}
	return false
}

// Takes counts the looks at rings that found something.
func (n *Node) Takes() uint64 { return n.takes }

// Pending reports whether PollOutput may have something.
func (n *Node) Pending() bool {
	return len(n.work)+len(n.ready)+len(n.faults)+len(n.cmds.waiting) > 0
}

// watch begins to poll a ring without its doorbell, and notifies its writer with b.
func (n *Node) watch(r *rqp, b *channel.Batch) {
	n.takes++
	r.used = n.takes
	if r.watched || !n.near.Mapped() {
		return
	}
	if len(n.watched) == maxWatched {
		old := n.watched[0]
		for _, x := range n.watched {
			if x.used < old.used {
				old = x
			}
		}
		if n.takes-old.used < staleTakes {
			return
		}
		b.Word4(old.wordsAt+wire.WatchedWord, 0)
		old.owes = old.owes || old.answered != old.taken
		old.kick() // its writer may have written before it saw that
		n.unwatch(old)
	}
	r.watched = true
	n.watched = append(n.watched, r)
	b.Word4(r.wordsAt+wire.WatchedWord, 1)
}

// unwatch ends watch.
func (n *Node) unwatch(r *rqp) {
	r.watched = false
	for i, x := range n.watched {
		if x == r {
			n.watched = append(n.watched[:i], n.watched[i+1:]...)
			return
		}
	}
}
