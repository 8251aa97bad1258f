// SPDX-License-Identifier: BSD-2-Clause

package sim

import (
	"bytes"
	"encoding/binary"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/roce"
)

// finish checks what must hold when all is quiet.
func (w *world) finish() {
	for _, e := range w.endpoints {
		if w.err != nil {
			return
		}
		e.poll()
		c := e.machine.Counters()
		w.Outcomes.Retransmitted += int(c[roce.Retransmitted])
		w.Outcomes.Replays += int(c[roce.AtomicReplay])
		w.Outcomes.Kept += int(c[roce.Kept])
		w.Outcomes.NotKept += int(c[roce.NotKept])
		if !e.gone {
			e.checkFinished(c)
		}
	}
	w.checkReorder()
	for _, e := range w.endpoints {
		e.checkMemory()
		if e.sure {
			e.checkArrived()
		}
	}
}

// checkFinished checks that a queue pair has done all of its plan, and waits for nothing.
func (e *endpoint) checkFinished(c *roce.Counters) {
	w := e.world
	exact := e.exact && e.peer.exact
	if w.calm && exact && c[roce.RcvdRNRNAK] == 0 && c[roce.Retransmitted] != 0 {
		w.fail("QP %v repeated %d packets on a perfect network", e.qpn, c[roce.Retransmitted])
	}
	if !e.idle() || e.settled != len(e.plan) {
		w.fail("QP %v (%v, %v) has not finished: %d of %d posted, %d settled, %d in its "+
			"queue, next time-out %v", e.qpn, e.typ, e.state, e.posted, len(e.plan), e.settled,
			e.sq.Len(), e.machine.NextTimeout())
	}
	if at := e.machine.NextTimeout(); at != monotime.Never {
		w.fail("QP %v (%v, %v) has nothing to do and a timer at %v", e.qpn, e.typ, e.state,
			monotime.Duration(at))
	}
	if exact && e.state != ib.QPRTS {
		if n := len(e.plan); n == 0 || e.plan[n-1].expect.Status == ib.WCSuccess {
			w.fail("QP %v ended in %v", e.qpn, e.state)
		}
	}
}

// checkReorder checks that queue pairs give back the memory for packets that arrived before their
// turn.
func (w *world) checkReorder() {
	for _, e := range w.endpoints {
		if m, ok := e.machine.(roce.Acknowledged); ok {
			m.Discard()
		}
	}
	for i, n := range w.nodes {
		if left := n.reorder.Left(); left != n.reorderBytes {
			w.fail("node %d has %d of %d bytes for packets that arrive before their turn", i, left,
				n.reorderBytes)
		}
	}
}

// checkArrived checks that an unreliable service on a perfect network loses
// nothing and ends as the oracle says.
func (e *endpoint) checkArrived() {
	sent := 0
	for _, from := range e.world.endpoints {
		for _, it := range from.plan {
			if it.to == e && it.consumes() {
				sent++
			}
		}
	}
	if e.pool.done != sent {
		e.world.fail("QP %v (%v) received %d messages of %d", e.qpn, e.typ, e.pool.done, sent)
	}
	if e.typ == ib.QPTypeUC &&
		!bytes.Equal(e.mem.bytes[e.target.off:e.target.off+e.target.n], e.final) {
		e.world.fail("QP %v (UC): its target is not what the oracle says", e.qpn)
	}
}

// checkMemory checks every byte of e: it is unchanged, or a peer with the right to do so wrote it.
func (e *endpoint) checkMemory() {
	w := e.world
	got := bytes.Clone(e.mem.bytes)
	start := e.mem.start
	for _, it := range e.plan {
		e.forget(got, it.result) // checked at completion
	}
	if e.pool.owner == e {
		for _, p := range e.pool.pieces {
			e.forget(got, p)
		}
	}
	t := got[e.target.off : e.target.off+e.target.n]
	if e.revoked != nil && !bytes.Equal(t, e.revoked) {
		w.fail("QP %v: its target changed after its key was taken away", e.qpn)
	}
	if e.peer != nil {
		e.checkTarget(t)
		copy(t, start[e.target.off:])
	}
	for i := range got {
		if got[i] != start[i] {
			w.fail("QP %v: byte %d of its memory changed, which nobody was granted", e.qpn, i)
			return
		}
	}
}

// forget takes a piece out of the comparison.
func (e *endpoint) forget(got []byte, p piece) {
	if p.area != nil {
		copy(got[p.off:p.off+p.n], p.start())
	}
}

// checkTarget checks the memory that the peer may write.
func (e *endpoint) checkTarget(t []byte) {
	w := e.world
	if e.peer.exact && !bytes.Equal(t, e.final) {
		w.fail("QP %v: its target is not what the oracle says", e.qpn)
		return
	}
	word := e.words.off - e.target.off
	start := e.mem.start[e.target.off : e.target.off+e.target.n]
	for i := range t {
		if i >= word && i < word+8*atomicWords {
			continue
		}
		if t[i] != start[i] && t[i] != e.final[i] {
			w.fail("QP %v: byte %d of its target is neither old nor new", e.qpn, i)
			return
		}
	}
	for k, values := range e.history {
		v, found := binary.NativeEndian.Uint64(t[word+8*k:]), false
		for _, h := range values {
			found = found || h == v
		}
		if !found {
			w.fail("QP %v: word %d is %#x, which no number of its atomics makes", e.qpn, k, v)
		}
	}
}
