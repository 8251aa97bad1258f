// SPDX-License-Identifier: BSD-2-Clause

package uc

import (
	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/qp"
	"verbena/internal/queue"
	"verbena/internal/roce"
	wire "verbena/internal/wire/roce"
)

// requester is the sending half.
type requester struct {
	psn    ib.PSN // of the next packet
	off    uint32 // bytes of the oldest work request that are sent
	midway bool   // its first packet is sent, its last is not
}

// pollRequests fills the burst with as many packets as it takes.
func (q *QP) pollRequests(now monotime.Time, b *roce.Burst) {
	for !b.Full() && q.SQ.Len() > 0 {
		if s := q.State(); s != ib.QPRTS && !(s == ib.QPSQD && q.req.midway) {
			return
		}
		w := q.SQ.At(0)
		if qp.IsLocal(w.Opcode) {
			if s, v := q.ExecuteLocal(w); s != ib.WCSuccess {
				q.failSend(w, s, v)
				return
			}
			q.FinishSend(w)
			continue
		}
		if q.Rate.Holds(now) {
			return
		}
		bytes := b.Bytes()
		if !q.sendPacket(w, b) {
			return
		}
		q.Rate.Sent(now, b.Bytes()-bytes)
	}
}

// carries reports whether the service has the operation.
//
// Spec: IBTA vol. 1, 9.8.2 (operations of the service).
func carries(o ib.WROpcode) bool {
	switch o {
	case ib.WRSend, ib.WRSendWithImm, ib.WRRDMAWrite, ib.WRRDMAWriteWithImm:
		return true
	}
	return false
}

// sendPacket adds the next packet of w to the burst, reporting false if the
// burst cannot take it or the work request failed.
func (q *QP) sendPacket(w *queue.SendWQE, b *roce.Burst) bool {
	r := &q.req
	if !carries(w.Opcode) {
		q.failSend(w, ib.WCLocQPOpErr, ib.VendorOpcode)
		return false
	}
	n := int(min(w.Length-r.off, uint32(q.MTU)))
	first, last := r.off == 0, r.off+uint32(n) == w.Length
	op := roce.DataOpcode(wire.UCSendFirst, w.Opcode, first, last)
	info := op.Info()
	h := q.BTH(op, r.psn)
	h.Pad = wire.PadBytes(n)
	h.Solicited = last && w.Flags&ib.SendSolicited != 0
	size := info.HeaderBytes + n + int(h.Pad) + wire.ICRCBytes

	spans, s, v := q.Gather(b.Scratch(), w, int(r.off), n)
	if s != ib.WCSuccess {
		q.failSend(w, s, v)
		return false
	}
	defer qp.Release(spans)
	if !b.Begin(q.Path, size, h) {
		return false
	}
	if info.HasRETH {
		b.RETH(wire.RETH{VA: w.RemoteAddr, RKey: w.RKey, DMALen: w.Length})
	}
	if info.HasImm {
		b.ImmDt(w.Imm)
	}
	if w.Flags&ib.SendInline != 0 {
		b.Copy(w.Inline[r.off : int(r.off)+n])
	}
	if !b.CopySpans(spans) {
		b.Abort()
		q.failSend(w, ib.WCLocProtErr, ib.VendorFault)
		return false
	}
	b.End()
	r.psn = r.psn.Add(1)
	r.off, r.midway = r.off+uint32(n), true
	if last {
		q.finishMessage(w)
	}
	return true
}

func (q *QP) finishMessage(w *queue.SendWQE) {
	q.req.off, q.req.midway = 0, false
	q.Count[roce.SentMessages]++
	q.FinishSend(w)
	q.SQDrained()
}

// failSend stops the send queue. A message that breaks off midway is dropped
// by the responder when the next one starts.
func (q *QP) failSend(w *queue.SendWQE, s ib.WCStatus, v ib.VendorErr) {
	q.req.off, q.req.midway = 0, false
	q.FailSend(w, s, v)
}
