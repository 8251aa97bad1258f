// SPDX-License-Identifier: BSD-2-Clause

package rdma

import (
	"math/bits"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/ntb/channel"
	wire "verbena/internal/wire/ntb"
)

// farState is the peer's progress with the far half of a queue pair.
type farState uint8

const (
	farCreating   farState = iota // QP_CREATE is under way
	farCreated                    // it is there, and works for nobody
	farConnecting                 // QP_MODIFY is under way
	farConnected                  // it works for the queue pair's peer
	farDeleting                   // QP_DELETE is under way
	farGone
)

// far is a queue pair's record of its far half, with the rings between them.
// It outlives the queue pair's interest in it: until the peer has said that it
// is deleted, no memory of it is used for anything else.
type far struct {
	qp    *QP
	qpn   ib.QPN
	state farState

	serial uint32
	grant  wire.QPGrant // rights of its WRITEs, as the peer said last

	// ours
	cap     uint32
	cqesAt  uint64
	wordsAt uint64
	bell    uint32

	// the peer's
	wqesAt  uint64
	farBell uint32
	rung    uint32
	fresh   bool // lines were written, and the peer may need its doorbell: see Quick
	silent  bool // … and the doorbell is still to be rung

	posted     wire.Index
	done       wire.Index
	generation uint32
	pieces     []piece // by slot
	loose      int     // pieces outstanding that change memory, and have not yet
}

// piece is the part of a message that a WQE in the ring stands for.
type piece struct {
	wqe   uint64 // absolute index of its work request
	off   uint32
	n     uint32
	at    uint64 // its room: in the arena, or, of a READ, in our window
	room  uint64 // bytes of it; 0: none
	read  bool   // or atomic: counts against MaxRdAtomic
	loose bool   // counts in far.loose
	place bool   // the room is in our window
	last  bool
}

// Bounds of the rings of a queue pair.
const (
	minRing = 16
	maxRing = 1 << 10

	announcePause = 50 * monotime.Millisecond // when there was no room
)

// announce does the next step towards a connected far half.
func (q *QP) announce(now monotime.Time) {
	n := q.node
	if n.ch.State() != channel.Up || q.gone {
		return
	}
	switch s := q.State(); {
	case s == ib.QPReset || s == ib.QPErr:
		return
	case q.far == nil:
		if !n.createFar(q) {
			n.Count[NoRoom]++
			q.retry(now.Add(announcePause))
		}
	case q.far.state == farCreated && s != ib.QPInit && s != ib.QPRTR:
		q.far.state = farConnecting
		n.command(command{op: wire.OpQPModify, far: q.far,
			body: wire.QPModify{QPN: q.QPN, Dest: q.Attr.DestQPN, State: ib.QPRTS,
				PSN: q.Attr.SQPSN}.Append(nil)})
	}
}

// ringCap returns how many entries the rings of a send queue of n get.
func ringCap(n int) uint32 {
	return uint32(1) << bits.Len32(uint32(min(max(n, minRing), maxRing)-1))
}

func (n *Node) createFar(q *QP) bool {
	n.serial++
	f := &far{qp: q, qpn: q.QPN, cap: ringCap(q.SQ.Cap()), serial: n.serial, generation: 1}
	size := uint64(f.cap) * wire.CQEBytes
	at, ok := n.own.pool.take(size + wire.WordsBytes)
	if !ok {
		return false
	}
	if f.bell, ok = n.takeBell(bellOwner{far: f}); !ok {
		n.own.pool.give(at, size+wire.WordsBytes)
		return false
	}
	n.ch.Own().Clear(at, size+wire.WordsBytes)
	f.cqesAt, f.wordsAt = at, at+size
	f.pieces = make([]piece, f.cap)
	q.far = f
	n.command(command{op: wire.OpQPCreate, far: f,
		body: wire.QPCreate{QPN: q.QPN, Cap: f.cap, CQEsAt: f.cqesAt, DoneAt: f.wordsAt,
			Bell: f.bell, Serial: f.serial}.Append(nil)})
	return true
}

// created takes the response to QP_CREATE.
func (f *far) created(now monotime.Time, s wire.CommandStatus, body []byte) {
	q, n := f.qp, f.qp.node
	c, _, ok := wire.ParseQPCreated(body)
	ok = ok && s == wire.CommandDone && c.WQEsAt%8 == 0 && c.Bell < n.peer.Bells &&
		n.ch.PeerContains(c.WQEsAt, uint64(f.cap)*wire.WQEBytes)
	f.wqesAt, f.farBell = c.WQEsAt, c.Bell
	if f.state == farDeleting { // its QP_DELETE is behind
		return
	}
	if !ok {
		f.state = farGone
		f.free()
		q.far = nil
		q.retry(now.Add(announcePause))
		return
	}
	f.state = farCreated
	q.announce(now)
}

// connected takes the response to QP_MODIFY.
func (f *far) connected(now monotime.Time, s wire.CommandStatus) {
	if f.state != farConnecting {
		return
	}
	if s != wire.CommandDone {
		f.qp.fail(ib.EventQPFatal)
		return
	}
	f.state = farConnected
	f.qp.node.kick(f.qp)
}

// leave has the peer delete the far half.
func (q *QP) leave() {
	f := q.far
	if f == nil {
		return
	}
	q.far = nil
	f.state = farDeleting
	q.node.command(command{op: wire.OpQPDelete, far: f,
		body: wire.QPDelete{QPN: f.qpn}.Append(nil)})
}

// deleted takes the response to QP_DELETE: nothing of it is used there any more.
func (f *far) deleted(now monotime.Time) {
	n := f.qp.node
	for i := f.done; i != f.posted; i++ {
		f.release(&f.pieces[i.Slot(f.cap)])
	}
	f.state = farGone
	f.free()
	n.kickAll()
}

// free gives the memory of the rings back.
func (f *far) free() {
	n := f.qp.node
	n.giveBell(f.bell)
	n.own.pool.give(f.cqesAt, uint64(f.cap)*wire.CQEBytes+wire.WordsBytes)
}

// release gives a piece's room back.
func (f *far) release(p *piece) {
	n := f.qp.node
	switch {
	case p.room == 0:
	case p.place:
		n.own.pool.give(p.at, p.room)
	default:
		n.arena.give(p.at, p.room)
	}
	p.room = 0
}

// kickAll looks at all queue pairs again: there is room now.
func (n *Node) kickAll() {
	for _, q := range n.qps {
		if q.req.starved {
			q.req.starved = false
			n.kick(q)
		}
	}
}
