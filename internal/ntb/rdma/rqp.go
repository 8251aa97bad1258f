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
	cap      uint32
	wqesAt   uint64
	postedAt uint64
	bell     uint32

	// the peer's
	cqesAt  uint64
	doneAt  uint64
	farBell uint32
	rung    uint32

	taken      wire.Index
	generation uint32
	stopped    stop
	queued     bool // in node.work
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
	case !wire.ValidCap(c.Cap, maxRing), c.DoneAt%8 != 0, c.Bell >= n.peer.Bells, c.Bell < firstQPBell,
		!n.ch.PeerContains(c.CQEsAt, uint64(c.Cap)*wire.CQEBytes), !n.ch.PeerContains(c.DoneAt, 8):
		return wire.CommandMalformed
	}
	r := &rqp{node: n, qpn: c.QPN, cap: c.Cap, cqesAt: c.CQEsAt, doneAt: c.DoneAt, farBell: c.Bell, serial: c.Serial}
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
	r.wqesAt, r.postedAt = at, at+uint64(r.cap)*wire.WQEBytes
	n.rqps[c.QPN] = r
	wire.QPCreated{WQEsAt: r.wqesAt, PostedAt: r.postedAt, Bell: r.bell}.Append(answer)
	return wire.CommandDone
}

// ringBytes is the size of the WQE ring with its index.
func (r *rqp) ringBytes() uint64 { return uint64(r.cap)*wire.WQEBytes + 8 }

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
		q.resp = responder{} // what was begun is not finished
	}
	for _, q := range n.qps {
		if q.opened == r {
			q.opened = nil // its queue pair has left
		}
	}
	r.stopped = dead
	n.giveBell(r.bell)
	n.own.pool.give(r.wqesAt, r.ringBytes())
	n.kickAll()
	return wire.CommandDone
}

// run executes the next requests and answers them in one batch.
func (r *rqp) run(now monotime.Time, b *channel.Batch) bool {
	n, w := r.node, r.node.ch.Own()
	if r.stopped == dead {
		return false
	}
	pos := wire.Position(w.Load8(r.postedAt))
	if r.stopped == paused && pos.Generation() == r.generation+1 {
		r.generation++
		r.stopped = running
	}
	if r.stopped != running || pos.Generation() != r.generation {
		return false
	}
	end := pos.Index()
	if end.Since(r.taken) > r.cap {
		n.violated(now)
		return false
	}
	first, cqes := r.taken, [maxBatch]wire.CQE{}
	k := 0
	for ; r.taken != end && k < maxBatch && r.stopped == running && n.rqps[r.qpn] == r; k++ {
		cqes[k] = r.answer(b)
		r.taken++
	}
	if k == 0 {
		return false
	}
	for i := range cqes[:k] {
		b.Append(r.cqesAt+wire.CQEBytes*uint64(cqes[i].Index.Slot(r.cap)), cqes[i].Append)
	}
	b.Word8(r.doneAt, uint64(wire.NewPosition(r.generation, r.taken)))
	n.ring(b, r.farBell, &r.rung)
	n.ch.Ring(b)
	if n.last = (source{rqp: r, from: first}); r.stopped == paused {
		r.taken--
	} else if r.taken != end {
		r.kick()
	}
	return true
}

// servedBy reports whether r works for q: it is the far half of the queue pair that
// q is connected to, for this connection.
func (q *QP) servedBy(r *rqp) bool {
	return r.ready && r.dest == q.QPN && q.Attr.DestQPN == r.qpn && q.Attr.RQPSN == r.psn && q.receives() && !q.gone
}

// answer executes the request at taken.
func (r *rqp) answer(b *channel.Batch) wire.CQE {
	n := r.node
	c := wire.CQE{Index: r.taken}
	var room [wire.WQEBytes]byte // a copy: the peer may change what we judge
	var e wire.WQE
	n.ch.Own().CopyOut(r.wqesAt+wire.WQEBytes*uint64(r.taken.Slot(r.cap)), room[:])
	q := n.byQPN[r.dest]
	if q == nil || !q.servedBy(r) {
		c.Status = wire.StatusNotReady
		r.stopped = paused
		return c
	}
	q.Count[RcvdPieces]++
	if !e.Parse(room[:]) || e.Index != r.taken {
		q.Count[BadWQE]++
		c.Status = q.refuse(wire.StatusInvalid)
	} else {
		c.Status, c.Orig = q.execute(&e, b)
	}
	switch c.Status {
	case wire.StatusDone:
	case wire.StatusRNR:
		q.Count[SentRNR]++
		c.Timer = q.Attr.MinRNRTimer & 31
		r.stopped = paused
	default:
		r.stopped = dead
	}
	return c
}

// handleFault: memory of a READ that this batch answers is not mapped any more.
// Nothing of the batch behind its bytes was written: the peer waits for the
// answer to request from, and gets this.
func (r *rqp) handleFault(now monotime.Time, from wire.Index) {
	n := r.node
	if n.rqps[r.qpn] != r {
		return
	}
	r.stopped = dead
	if q := n.byQPN[r.dest]; q != nil && q.Attr.DestQPN == r.qpn {
		q.refuse(wire.StatusOp)
	}
	n.faults = append(n.faults, fault{r, from})
}

// fault is an answer that handleFault owes.
type fault struct {
	r    *rqp
	from wire.Index
}

// pollFaults writes an answer that is owed.
func (n *Node) pollFaults(b *channel.Batch) bool {
	for len(n.faults) > 0 {
		x := n.faults[0]
		n.faults = n.faults[:copy(n.faults, n.faults[1:])]
		r := x.r
		if n.rqps[r.qpn] != r {
			continue
		}
		b.Append(r.cqesAt+wire.CQEBytes*uint64(x.from.Slot(r.cap)), wire.CQE{Index: x.from, Status: wire.StatusOp}.Append)
		b.Word8(r.doneAt, uint64(wire.NewPosition(r.generation, x.from+1)))
		n.ring(b, r.farBell, &r.rung)
		n.ch.Ring(b)
		return true
	}
	return false
}
