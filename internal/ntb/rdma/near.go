// SPDX-License-Identifier: BSD-2-Clause

package rdma

import (
	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/ntb/window"
	"verbena/internal/qp"
	"verbena/internal/queue"
)

// Where the peer's window is mapped here, the last post may be done when it is posted, without a
// batch: nothing before it waits, and there is nothing to wait for. All others go by PollOutput.

// Quick does the posted work, as far as it can be done at once. all reports whether that is all of
// it, and wake that the peer sleeps and is to be woken. It comes before Doorbell or, with all,
// instead of it.
func (q *QP) Quick() (all, wake bool) {
	all = q.quick()
	f := q.far
	if f == nil || !f.fresh {
		return all, false
	}
	f.fresh = false
	if window.Settle(); f.toRing() {
		f.silent = true
		return false, false
	}
	return all, q.node.ch.MustWake()
}

func (q *QP) quick() bool {
	r := &q.req
	if r.blocked || r.off > 0 || !q.near() {
		return false
	}
	left := uint32(nearMax)
	for r.cur < q.SQ.Tail() {
		w := q.SQ.AtAbs(r.cur)
		switch {
		case w.State != wqePosted:
			return false
		case w.Opcode == ib.WRRDMAWrite:
			if w.Length > left || !q.store(w) {
				return false
			}
			left -= w.Length
		case !wqeOps[w.Opcode].IsSend() || !q.sendLine(w):
			return false
		}
	}
	return true
}

// near reports whether posted work may be done by stores, as far as the queue pair and the link are
// concerned.
func (q *QP) near() bool {
	n, f := q.node, q.far
	return q.State() == ib.QPRTS && f != nil && f.state == farConnected &&
		q.retryAt == monotime.Never && n.near.Mapped() && n.ch.Current()
}

// Store makes a WRITE of at most MaxStore bytes without a place in the send queue. The queue is
// empty, so it waits for nothing there. Store returns false if the WRITE must have a place.
func (q *QP) Store(s *queue.Short) bool {
	if q.SQ.Len() > 0 || !q.near() {
		return false
	}
	n := uint32(s.Bytes)
	at, run := q.far.direct(s.Key, s.Addr, n)
	if run < n || run == 0 || !q.node.near.Place(at, s.Data[:n]) {
		return false
	}
	q.Count[SentPlaced] += uint64(n)
	q.Count[SentMessages]++
	q.CompleteDone(s.ID, ib.WRRDMAWrite, s.Flags, n)
	return true
}

const (
	// MaxStore is the length up to which a place in the send queue costs more than the bytes.
	MaxStore = 64
	// nearMax bounds how many bytes are stored in one go.
	nearMax = 16 << 20
	// scratchBytes is up to how many bytes are gathered before they are stored.
	scratchBytes = 256
)

// store executes a WRITE that needs nobody's leave: nothing before it is on its way to a place of
// its own, and the peer has granted the queue pair its regions. The region is one of these. It is
// done then, and completes in its turn.
func (q *QP) store(w *queue.SendWQE) bool {
	f, r := q.far, &q.req
	if f.loose > 0 || w.Flags&ib.SendFence != 0 && r.reads > 0 {
		return false
	}
	at, run := f.direct(w.RKey, w.RemoteAddr, w.Length)
	if run < w.Length || run == 0 || !q.bringNear(w, at) {
		return false
	}
	q.Count[SentPlaced] += uint64(w.Length)
	q.Count[SentMessages]++
	w.State = wqeDone
	r.cur++
	q.retire()
	return true
}

// bringNear copies w's data into the peer's window. It returns false if they cannot be read; then
// the other way makes an error. The last bytes are there last.
func (q *QP) bringNear(w *queue.SendWQE, at uint64) bool {
	n := q.node
	if w.Flags&ib.SendInline != 0 {
		return n.near.Place(at, w.Inline)
	}
	spans, s, _ := q.Gather(q.req.spans[:0], w, 0, int(w.Length))
	if s != ib.WCSuccess {
		return false
	}
	left, ok := int(w.Length), true
	for i := 0; ok && left > 0; i++ {
		p := &spans[i]
		for off := 0; ok && off < p.Len(); {
			// The middle of a long piece, of whole words.
			k := min(p.Len()-off, len(n.scratch))
			if left > len(n.scratch) && at%8 == 0 && p.Len()-off > len(n.scratch) {
				k = min(p.Len()-off, left-8) &^ 7
				ok = n.near.Gather(at, p, off, k)
			} else {
				if at%8 != 0 && k == len(n.scratch) {
					k -= int(at % 8)
				}
				ok = p.CopyOut(off, n.scratch[:k]) && n.near.Place(at, n.scratch[:k])
			}
			off, at, left = off+k, at+uint64(k), left-k
		}
	}
	qp.Release(spans)
	clear(spans)
	q.req.spans = spans[:0]
	return ok
}
