// SPDX-License-Identifier: BSD-2-Clause

package rdma

import (
	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/ntb/channel"
	wire "verbena/internal/wire/ntb"
)

// rqp is the far half of a queue pair of the peer: it executes that one's
// requests for one of our queue pairs.
type rqp struct {
	node  *Node
	qpn   ib.QPN // of the peer's
	dest  ib.QPN // of ours, that it works for
	psn   ib.PSN // that the connection begins with
	ready bool   // the peer has said which

	serial uint32 // the peer's

	// ours
	cap    uint32
	wqesAt uint64
	bell   uint32

	// the peer's
	cqesAt  uint64
	wordsAt uint64
	farBell uint32
	rung    uint32

	taken      wire.Index
	answered   wire.Index // acknowledged to the peer, by its words or on a WQE of ours
	told       wire.Index // by its words
	generation uint32
	stopped    stop
	queued     bool // in node.work
	owes       bool // its words are to be written

	q       *QP    // dest, as looked up last
	watched bool   // in node.watched
	used    uint64 // of a watched one: when something was there last; see Node.takes
}

// stop says why an RQP does not go on.
type stop uint8

const (
	running stop = iota
	// paused: the request at taken was put off; a new generation takes it up.
	paused
	// dead: a request was refused; nothing follows it.
	dead
)

func (r *rqp) kick() {
	if !r.queued {
		r.queued = true
		r.node.work = append(r.node.work, r)
	}
}

func (n *Node) createRQP(c *wire.QPCreate, answer []byte) wire.CommandStatus {
	switch {
	case n.rqps[c.QPN] != nil:
		return wire.CommandExists
	case !wire.ValidCap(c.Cap, maxRing), c.DoneAt%8 != 0,
		c.Bell >= n.peer.Bells, c.Bell < firstQPBell,
		!n.ch.PeerContains(c.CQEsAt, uint64(c.Cap)*wire.CQEBytes),
		!n.ch.PeerContains(c.DoneAt, wire.WordsBytes):
		return wire.CommandMalformed
	}
	r := &rqp{node: n, qpn: c.QPN, cap: c.Cap, cqesAt: c.CQEsAt, wordsAt: c.DoneAt, farBell: c.Bell,
		serial: c.Serial, generation: 1}
	at, ok := n.own.pool.take(r.ringBytes())
	if !ok {
		n.Count[NoRoom]++
		return wire.CommandNoRoom
	}
	if r.bell, ok = n.takeBell(bellOwner{rqp: r}); !ok {
		n.own.pool.give(at, r.ringBytes())
		n.Count[NoRoom]++
		return wire.CommandNoRoom
	}
	n.ch.Own().Clear(at, r.ringBytes())
	r.wqesAt = at
	n.rqps[c.QPN] = r
	wire.QPCreated{WQEsAt: r.wqesAt, Bell: r.bell}.Append(answer)
	return wire.CommandDone
}

// ringBytes is the size of the WQE ring.
func (r *rqp) ringBytes() uint64 { return uint64(r.cap) * wire.WQEBytes }

func (n *Node) modifyRQP(c *wire.QPModify) wire.CommandStatus {
	r := n.rqps[c.QPN]
	if r == nil {
		return wire.CommandNoSuch
	}
	if r.ready && (r.dest != c.Dest || r.psn != c.PSN) {
		return wire.CommandMalformed // a connection does not move
	}
	r.dest, r.psn, r.ready = c.Dest, c.PSN, c.State >= ib.QPRTR
	if q := n.byQPN[r.dest]; q != nil {
		q.regrant()
	}
	return wire.CommandDone
}

func (n *Node) deleteRQP(number ib.QPN) wire.CommandStatus {
	r := n.rqps[number]
	if r == nil {
		return wire.CommandNoSuch
	}
	delete(n.rqps, number)
	if q := n.byQPN[r.dest]; q != nil && q.Attr.DestQPN == number {
		q.resp = responder{} // begun requests are not finished
	}
	for _, q := range n.qps {
		if q.opened == r {
			q.opened = nil // its queue pair has left
		}
		if q.server == r {
			q.server = nil
		}
	}
	r.stopped = dead
	n.unwatch(r)
	n.giveBell(r.bell)
	n.own.pool.give(r.wqesAt, r.ringBytes())
	n.kickAll()
	return wire.CommandDone
}

// next reports whether the request at taken is there.
func (r *rqp) next() bool {
	m := wire.Position(r.node.ch.Own().Load8(r.wqesAt + wire.WQEBytes*uint64(r.taken.Slot(r.cap)) +
		wire.MarkAt))
	if r.stopped == paused && m == wire.NewPosition(r.generation+1, r.taken) {
		r.generation++
		r.stopped = running
	}
	return r.stopped == running && m == wire.NewPosition(r.generation, r.taken)
}

// run executes the next requests and answers them in one batch, with those that are still to be
// answered. Requests that have only gone well need no CQE.
func (r *rqp) run(now monotime.Time, b *channel.Batch) bool {
	n, first := r.node, r.taken
	r.node.own.cqes = r.node.own.cqes[:0]
	k := 0
	for ; k < maxBatch && n.rqps[r.qpn] == r && r.next(); k++ {
		r.answer(b)
	}
	if n.rqps[r.qpn] != r || k == 0 && !r.owes {
		return false
	}
	if k > 0 {
		n.watch(r, b)
	}
	r.tell(b, n.own.cqes)
	if n.last = (source{rqp: r, from: first}); k == maxBatch {
		r.kick()
	}
	return true
}

// tell writes CQEs, the last ones for the requests up to taken, and the words of our progress.
func (r *rqp) tell(b *channel.Batch, cqes []wire.CQE) {
	n, end := r.node, r.taken
	if r.stopped == paused && len(cqes) > 0 {
		end++ // the one that is put off has its CQE, and comes again
	}
	from := end
	for i := range cqes {
		b.Append(r.cqesAt+wire.CQEBytes*uint64(cqes[i].Index.Slot(r.cap)), cqes[i].Append)
	}
	if len(cqes) > 0 {
		from = cqes[0].Index
	}
	b.Word8(r.wordsAt+wire.FromWord, uint64(wire.NewPosition(r.generation, from)))
	b.Word8(r.wordsAt+wire.DoneWord, uint64(wire.NewPosition(r.generation, end)))
	n.ring(b, r.farBell, &r.rung)
	n.ch.Ring(b)
	r.answered, r.told, r.owes = r.taken, r.taken, false
}

// servedBy reports whether r works for q: it is the far half of the queue pair that
// q is connected to, for this connection.
func (q *QP) servedBy(r *rqp) bool {
	return r.ready && r.dest == q.QPN && q.Attr.DestQPN == r.qpn && q.Attr.RQPSN == r.psn &&
		q.receives() && !q.gone
}

// answer executes the request at taken. From the first on that has more to say than
// that all went well there are CQEs.
func (r *rqp) answer(b *channel.Batch) {
	n := r.node
	c := wire.CQE{Index: r.taken}
	var room [wire.WQEBytes]byte // a copy: the peer may change the original
	var e wire.WQE
	n.ch.Own().CopyOut(r.wqesAt+wire.WQEBytes*uint64(r.taken.Slot(r.cap)), room[:])
	q := n.byQPN[r.dest]
	if q == nil || !q.servedBy(r) {
		c.Status = wire.StatusNotReady
	} else {
		q.server = r
		q.Count[RcvdPieces]++
		if !e.Parse(room[:]) || e.Mark.Index() != r.taken {
			q.Count[BadWQE]++
			c.Status = q.refuse(wire.StatusInvalid, ib.VendorOpcode)
		} else {
			if e.Flags&wire.WQEDone != 0 {
				q.takeDone(e.Done)
			}
			c.Status, c.Orig = q.execute(&e, b)
		}
	}
	if c.Status != wire.StatusDone || e.Op.IsAtomic() || len(n.own.cqes) > 0 {
		n.own.cqes = append(n.own.cqes, c)
	}
	switch c.Status {
	case wire.StatusDone:
		r.taken++
	case wire.StatusRNR:
		q.Count[SentRNR]++
		n.own.cqes[len(n.own.cqes)-1].Timer = q.Attr.MinRNRTimer & 31
		r.stopped = paused
	case wire.StatusNotReady:
		r.stopped = paused
	default:
		r.taken++
		r.stopped = dead
	}
}

// handleFault: memory of a READ that this batch answers is not mapped any more.
// Nothing of the batch behind its bytes was written: the peer waits for the
// answer to request from, and gets this.
func (r *rqp) handleFault(now monotime.Time, from wire.Index) {
	n := r.node
	if n.rqps[r.qpn] != r {
		return
	}
	if q := n.byQPN[r.dest]; q != nil && q.Attr.DestQPN == r.qpn {
		q.refuse(wire.StatusOp, ib.VendorFault)
	}
	r.taken = from
	r.refuse(wire.StatusOp)
}

// refuse has the request at taken, with which r ends, answered later.
func (r *rqp) refuse(s wire.Status) {
	n := r.node
	n.faults = append(n.faults, fault{r, wire.CQE{Index: r.taken, Status: s}})
	r.taken++
	r.stopped = dead
}

// fault is an answer that refuse owes.
type fault struct {
	r *rqp
	c wire.CQE
}

// pollFaults writes an answer that is owed.
func (n *Node) pollFaults(b *channel.Batch) bool {
	for len(n.faults) > 0 {
		x := n.faults[0]
		n.faults = n.faults[:copy(n.faults, n.faults[1:])]
		if n.rqps[x.r.qpn] != x.r {
			continue
		}
		x.r.tell(b, []wire.CQE{x.c})
		return true
	}
	return false
}
