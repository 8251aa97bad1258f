// SPDX-License-Identifier: BSD-2-Clause

package rdma

import (
	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/ntb/channel"
)

// Virtual doorbells: words in our window that the peer counts up. A scan finds
// those that changed.
const (
	bellCommands  = 0 // the peer has posted commands
	bellResponses = 1 // … or responses
	firstQPBell   = 2

	// maxBells bounds the scan, and so the queue pairs of a link to half of it.
	maxBells = 1 << 14
)

// short names in signatures
type (
	rkey = ib.RKey
	qpn  = ib.QPN
)

// bells is the table of our doorbells.
type bells struct {
	seen []uint32
	owns []bellOwner
	used int // bells up to here have had an owner
	free []uint32
}

// bellOwner is the half that a doorbell is for: neither, for one that is free.
type bellOwner struct {
	far *far
	rqp *rqp
}

func newBells(n int) bells {
	return bells{seen: make([]uint32, n), owns: make([]bellOwner, n), used: firstQPBell}
}

// takeBell gives a doorbell an owner. The ringing peer counts from 1.
func (n *Node) takeBell(o bellOwner) (i uint32, ok bool) {
	t := &n.bells
	if k := len(t.free); k > 0 {
		i, t.free = t.free[k-1], t.free[:k-1]
	} else if t.used < len(t.owns) {
		i = uint32(t.used)
		t.used++
	} else {
		return 0, false
	}
	t.owns[i], t.seen[i] = o, 0
	n.ch.Own().Store4(n.own.res.BellsAt+4*uint64(i), 0)
	return i, true
}

// giveBell takes a doorbell back, which nobody rings any more.
func (n *Node) giveBell(i uint32) {
	n.bells.owns[i] = bellOwner{}
	n.bells.free = append(n.bells.free, i)
}

// scan looks at all doorbells in use.
func (n *Node) scan(now monotime.Time) {
	n.scanned, n.rescan = n.ch.Seen(), false
	w, at := n.ch.Own(), n.own.res.BellsAt
	for i := range n.bells.used {
		v := w.Load4(at + 4*uint64(i))
		if v == n.bells.seen[i] {
			continue
		}
		n.bells.seen[i] = v
		switch o := n.bells.owns[i]; {
		case i == bellCommands:
			n.takeCommands(now)
		case i == bellResponses:
			n.takeResponses(now)
		case o.far != nil:
			o.far.qp.takeCompletions(now)
		case o.rqp != nil:
			o.rqp.kick()
		}
		if n.ch.State() != channel.Up { // a message there ended the session
			return
		}
	}
}

// ring rings a doorbell of the peer.
func (n *Node) ring(b *channel.Batch, bell uint32, count *uint32) {
	*count++
	b.Word4(n.peer.BellsAt+4*uint64(bell), *count)
}
