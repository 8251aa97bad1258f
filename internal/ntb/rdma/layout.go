// SPDX-License-Identifier: BSD-2-Clause

package rdma

import (
	"verbena/internal/ntb/channel"
	wire "verbena/internal/wire/ntb"
)

// commandCap bounds our commands under way, as in the original.
const commandCap = 16

// MinWindowBytes is the smallest window that a node can work with.
const MinWindowBytes = 1 << 17

// layout has the offsets and sizes of our window's parts in this session.
type layout struct {
	res        wire.Resources
	pool       *arena     // rings and places of READs
	cqes       []wire.CQE // of a batch
	commandsAt uint64     // of the peer
	postedAt   uint64
}

// HelloSend appends our bytes of a phase.
func (n *Node) HelloSend(phase uint16, b []byte) []byte {
	switch phase {
	case wire.PhaseResources:
		n.layOut()
		return n.own.res.Append(b)
	case wire.PhasePrepare:
		l := &n.own
		slots := uint64(n.peer.CommandCap) * wire.CommandBytes
		at, ok := l.pool.take(slots + 8)
		if !ok {
			panic("ntb: no room for commands in a window of MinWindowBytes")
		}
		l.commandsAt, l.postedAt = at, at+slots // behind the slots, as in the original
		n.ch.Own().Clear(at, slots+8)
		return wire.Prepare{CommandsAt: l.commandsAt, PostedAt: l.postedAt}.Append(b)
	}
	return wire.Ready{}.Append(b)
}

// layOut divides our window: doorbells, responses and rings of datagrams. Half of the rest is for
// the peer's data, the other half for rings and for the results of READs. The application's part
// stays as it is.
func (n *Node) layOut() {
	w, size := n.ch.Own(), n.usable()
	if size < MinWindowBytes {
		panic("ntb: window too small")
	}
	at := uint64(wire.InfoBytes)
	r := wire.Resources{WindowBytes: w.Len(), CommandCap: commandCap}
	r.BellsAt, r.Bells = at, uint32(min(size/256, maxBells))
	at = roundUp(at + 4*uint64(r.Bells))
	r.ResponsesAt, r.DoneAt = at, at+commandCap*wire.ResponseBytes
	at = roundUp(r.DoneAt + 8)
	at = n.layOutDatagrams(at, size)
	r.MADs, r.Frames = n.mads.in, n.frames.in
	r.ArenaAt, r.ArenaBytes = at, ((size-at)/2)&^(grain-1)
	w.Clear(wire.InfoBytes, at-wire.InfoBytes)
	n.own = layout{res: r, pool: newArena(at+r.ArenaBytes, size-at-r.ArenaBytes)}
	n.bells = newBells(int(r.Bells))
	n.cmds, n.server = commander{}, server{}
	n.rmrs, n.rmr, n.rqps, n.work = map[rkey]*rmr{}, nil, map[qpn]*rqp{}, n.work[:0]
}

// HelloRecv takes the peer's bytes of a phase. Places that we shall write to
// must be in its window.
func (n *Node) HelloRecv(phase uint16, b []byte) bool {
	switch phase {
	case wire.PhaseResources:
		r, _, ok := wire.ParseResources(b)
		if !ok || !checkResources(n.ch, &r) {
			return false
		}
		n.peer = r
		n.arena = newArena(r.ArenaAt, r.ArenaBytes)
		n.mads.begin(r.MADs)
		n.frames.begin(r.Frames)
		return true
	case wire.PhasePrepare:
		p, _, ok := wire.ParsePrepare(b)
		if !ok || !n.ch.PeerContains(p.CommandsAt, commandCap*wire.CommandBytes) ||
			!n.ch.PeerContains(p.PostedAt, 4) || p.PostedAt%4 != 0 {
			return false
		}
		n.prep = p
		return true
	}
	_, _, ok := wire.ParseReady(b)
	return ok
}

func checkResources(ch *channel.Channel, r *wire.Resources) bool {
	return wire.ValidCap(r.CommandCap, wire.MaxCommands) && r.Bells >= firstQPBell &&
		r.Bells <= maxBells &&
		r.BellsAt%4 == 0 && ch.PeerContains(r.BellsAt, 4*uint64(r.Bells)) &&
		ch.PeerContains(r.ArenaAt, r.ArenaBytes) &&
		ch.PeerContains(r.ResponsesAt, uint64(r.CommandCap)*wire.ResponseBytes) &&
		r.DoneAt%4 == 0 && ch.PeerContains(r.DoneAt, 4) &&
		checkDatagrams(ch, &r.MADs, wire.ManagementBytes) && checkDatagrams(ch, &r.Frames, 1)
}
