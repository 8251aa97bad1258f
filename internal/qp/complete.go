// SPDX-License-Identifier: BSD-2-Clause

package qp

import (
	"verbena/ib"
	"verbena/internal/queue"
)

// CompleteSend reports the fate of a send work request; success only where the
// request or the queue asks for it. The caller takes it off the queue.
func (q *Core) CompleteSend(w *queue.SendWQE, s ib.WCStatus, v ib.VendorErr) {
	q.count(ib.CompCntrSendOf(w.Opcode), s, w.Length)
	q.blameStatus(s, v)
	if s == ib.WCSuccess && !q.SignalAll && w.Flags&ib.SendSignaled == 0 {
		return
	}
	wc := &q.wc
	*wc = ib.WC{WRID: w.WRID, Status: s, Opcode: ib.WCOf(w.Opcode), VendorErr: v, QPN: q.QPN}
	switch w.Opcode {
	case ib.WRRDMARead:
		wc.ByteLen = w.Length
	case ib.WRAtomicCmpAndSwp, ib.WRAtomicFetchAndAdd:
		wc.ByteLen = 8
	}
	q.SendCQ.Push(wc, s != ib.WCSuccess)
}

// blameStatus is Blame of a work request that failed by itself.
func (q *Core) blameStatus(s ib.WCStatus, v ib.VendorErr) {
	if s != ib.WCSuccess && s != ib.WCWRFlushErr {
		q.Blame(v)
	}
}

// CompleteDone is CompleteSend, with success, of a request of n bytes that was done at once and is
// in no queue.
func (q *Core) CompleteDone(id uint64, op ib.WROpcode, flags ib.SendFlags, n uint32) {
	q.count(ib.CompCntrSendOf(op), ib.WCSuccess, n)
	if q.SignalAll || flags&ib.SendSignaled != 0 {
		q.wc = ib.WC{WRID: id, Opcode: ib.WCOf(op), QPN: q.QPN}
		q.SendCQ.Push(&q.wc, false)
	}
}

func (q *Core) count(op ib.CompCntrOps, s ib.WCStatus, n uint32) {
	if q.Counter != nil {
		q.Counter.Count(op, s, n)
	}
}

// TakeRecv takes the receive that a message will complete, unless one is held
// already. It reports false where none is posted.
func (q *Core) TakeRecv() bool {
	if !q.RecvHeld {
		q.RecvHeld = q.RQ.Pop(&q.Recv)
	}
	return q.RecvHeld
}

// WC returns room for a completion that is passed on at once: one that was made elsewhere
// is copied.
func (q *Core) WC() *ib.WC { return &q.wc }

// CompleteRecv reports the receive held. The caller fills in the service's fields: opcode, length,
// flags.
func (q *Core) CompleteRecv(wc *ib.WC, solicited bool) {
	q.RecvHeld = false
	if wc.Status == ib.WCSuccess {
		q.received++
	}
	if wc != &q.wc {
		q.wc = *wc
	}
	q.wc.WRID, q.wc.QPN = q.Recv.WRID, q.QPN
	q.count(ib.CompCntrRecv, q.wc.Status, q.wc.ByteLen)
	q.RecvCQ.Push(&q.wc, solicited)
}

// FailRecv completes the receive held, if one is, with an error.
func (q *Core) FailRecv(s ib.WCStatus, v ib.VendorErr) {
	if !q.RecvHeld {
		return
	}
	q.blameStatus(s, v)
	q.CompleteRecv(&ib.WC{Status: s, Opcode: ib.WCRecv, VendorErr: v}, true)
}

// FlushSends completes all posted sends with WR_FLUSH_ERR, in queue order.
//
// Spec: IBTA vol. 1, 10.3.1.7 (Error state), 10.3.1.6 (Send Queue Error state).
func (q *Core) FlushSends() {
	for q.SQ.Len() > 0 {
		q.CompleteSend(q.SQ.At(0), ib.WCWRFlushErr, ib.VendorQPState)
		q.SQ.PopFront()
	}
}

// FlushRecvs completes the receive held and, unless they are shared, all
// posted ones with WR_FLUSH_ERR.
func (q *Core) FlushRecvs() {
	q.FailRecv(ib.WCWRFlushErr, ib.VendorQPState)
	for !q.SRQ && q.TakeRecv() {
		q.FailRecv(ib.WCWRFlushErr, ib.VendorQPState)
	}
}

// Flush completes posted work when the queue pair enters the error state. With a shared receive
// queue the application learns that no more of it comes from here.
func (q *Core) Flush() {
	q.FlushSends()
	q.FlushRecvs()
	if q.SRQ {
		q.Raise(ib.EventQPLastWQEReached)
	}
}
