// SPDX-License-Identifier: BSD-2-Clause

package rdma

import (
	"verbena/ib"
	"verbena/internal/monotime"
	wire "verbena/internal/wire/ntb"
)

// A queue pair opens our announced regions to the one it is connected to, by a QP_GRANT. From then
// on WRITEs of that one go straight to their place. Their maker has checked before, by the same
// facts, everything that we would check. One more QP_GRANT takes the right back when the reason for
// it ends; with its response no such write is under way.
//
//	connected, RTR or later, REMOTE_WRITE ─► open ─► any other: closed, closing until the response

// regrant writes to the peer, if they have changed, the rights that it has without asking q.
func (q *QP) regrant() {
	n := q.node
	var r *rqp
	if q.Attr.AccessFlags.Has(ib.AccessRemoteWrite) {
		if x := n.rqps[q.Attr.DestQPN]; x != nil && q.servedBy(x) {
			r = x
		}
	}
	if x := q.server; x != nil && !q.servedBy(x) {
		q.server = nil
		if x.told != x.taken { // no WQE of ours will acknowledge it
			x.owes = true
			x.kick()
		}
	}
	if r == q.opened {
		return
	}
	if was := q.opened; was != nil {
		q.closing++
		n.command(command{op: wire.OpQPGrant, closes: q,
			body: wire.QPGrant{QPN: was.qpn, Serial: was.serial}.Append(nil)})
	}
	if q.opened = r; r != nil {
		n.command(command{op: wire.OpQPGrant,
			body: wire.QPGrant{QPN: r.qpn, Serial: r.serial, Domain: uint32(q.PD),
				Open: true}.Append(nil)})
	}
}

// Closed reports whether nobody writes to our regions any more by a right that q has
// taken back, or lost with the link.
func (q *QP) Closed(now monotime.Time) bool {
	n := q.node
	if q.lost = q.lost && n.ch.Stale(now); q.lost {
		return len(n.regions) == 0
	}
	return q.closing == 0 || len(n.regions) == 0
}

// takeGrant takes the rights that the peer gives WRITEs of a queue pair.
func (n *Node) takeGrant(c *wire.QPGrant) wire.CommandStatus {
	q := n.byQPN[c.QPN]
	if q == nil || q.far == nil || q.far.serial != c.Serial {
		return wire.CommandNoSuch // it has left
	}
	q.far.grant = *c
	return wire.CommandDone
}

// abandon ends all commands: the link is down.
func (c *commander) abandon() {
	for _, list := range [][]command{c.waiting, c.sent} {
		for i := range list {
			if q := list[i].closes; q != nil {
				q.closing, q.lost = 0, true
			}
		}
	}
}
