package rdma

import (
	"verbena/ib"
	"verbena/internal/ntb/channel"
	"verbena/internal/qp"
	"verbena/internal/queue"
	wire "verbena/internal/wire/ntb"
)

// A short SEND is one line of memory that changes owner once, where both nodes map the
// windows and its receiver polls:
//
//	QP.sendLine ── WQE, bytes, mark in one line ──► rqp.takeLine ─► receive completes
//	                                                   │ owed
//	QP.takeDone ◄── WQEDone of a WQE the other way ────┤
//	            ◄── words, doorbell, signal ───────────┘ Settle: nobody answered
//
// The receiver looks at the rings that were in use last, and says so to their writers
// (wire.WatchedWord), who then ring no doorbell. Who stops looking takes that back first
// and then looks once more, as who goes to sleep does; a writer writes first and then
// looks whether it must ring.

// Bounds of looking at rings.
const (
	maxWatched = 8
	// staleTakes is how many times something was found elsewhere before a ring makes
	// place for another one.
	staleTakes = 1 << 10
	// maxTake is how many requests of a ring are executed in one look.
	maxTake = 16
)

// sendLine sends what is short enough for one line.
func (q *QP) sendLine(w *queue.SendWQE) bool {
	n, f, r := q.node, q.far, &q.req
	if w.Length > wire.MaxShortSend || f.posted.Since(f.done) == f.cap || w.Flags&ib.SendFence != 0 && r.reads > 0 {
		return false
	}
	e := &n.wqe
	e.Op, e.Flags, e.Mark = wqeOps[w.Opcode], wire.WQEFirst|wire.WQELast, wire.NewPosition(f.generation, f.posted)
	e.Length, e.Bytes, e.Offset, e.Key, e.Imm = w.Length, w.Length, 0, 0, w.Imm
	if w.Opcode == ib.WRSendWithInv {
		e.Imm = uint32(w.InvalidateKey)
	}
	if w.Flags&ib.SendSolicited != 0 {
		e.Flags |= wire.WQESolicited
	}
	if w.Flags&ib.SendInline != 0 {
		copy(e.Inline[:], w.Inline)
	} else if !q.readShort(w, e.Inline[:w.Length]) {
		return false
	}
	q.tellDone(e)
	e.PutLine(&n.line)
	if !n.near.PutLine(f.slotAt(f.posted), &n.line) {
		return false
	}
	f.pieces[f.posted.Slot(f.cap)] = piece{wqe: r.cur, n: w.Length, loose: true, last: true}
	f.posted++
	f.loose++
	w.State = wqeSent
	r.cur++
	q.Count[SentPieces]++
	q.Count[SentMessages]++
	q.Count[SentInline] += uint64(w.Length)
	return true
}

// readShort copies what w sends; false if it cannot be read.
func (q *QP) readShort(w *queue.SendWQE, dst []byte) bool {
	spans, s, _ := q.Gather(q.req.spans[:0], w, 0, len(dst))
	if s != ib.WCSuccess {
		return false
	}
	ok := true
	for i := range spans {
		k := spans[i].Len()
		ok = ok && spans[i].CopyOut(0, dst[:k])
		dst = dst[k:]
	}
	qp.Release(spans)
	clear(spans)
	q.req.spans = spans[:0]
	return ok
}

// tellDone has a WQE tell how far we are with the requests of the other way. Each does:
// what those before it told may be void.
func (q *QP) tellDone(e *wire.WQE) {
	if r := q.server; r != nil && r.stopped != dead {
		e.Flags |= wire.WQEDone
		e.Done, r.answered = r.taken, r.taken
	}
}

// toRing reports whether the peer needs a doorbell to see what was written.
func (f *far) toRing() bool {
	return f.qp.node.ch.Own().Load4(f.wordsAt+wire.WatchedWord) == 0
}

// Take executes the short SENDs that are there in the rings that are watched, and
// returns how many. What else is there it leaves to PollOutput; see Pending.
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
		if q.takeDone(e.Done); !q.servedBy(r) { // the send queue may have failed with it
			return false
		}
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

// Settle has what Take left unanswered answered by the next PollOutput.
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

// watch begins to look at a ring without its doorbell, and tells its writer with b.
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
