// SPDX-License-Identifier: BSD-2-Clause

package ud

import (
	"verbena/ib"
	"verbena/internal/qp"
	"verbena/internal/queue"
	"verbena/internal/roce"
	wire "verbena/internal/wire/roce"
)

// privileged is the bit of a Q_Key in a work request that asks for the queue
// pair's own. Spec: IBTA vol. 1, 10.2 (Q_Keys).
const privileged ib.QKey = 1 << 31

// send adds the packet of w to the burst, reporting false if the burst cannot
// take it or the work request failed.
func (q *QP) send(w *queue.SendWQE, b *roce.Burst) bool {
	op := wire.UDSendOnly
	switch w.Opcode {
	case ib.WRSend:
	case ib.WRSendWithImm:
		op = wire.UDSendOnlyImm
	default:
		q.FailSend(w, ib.WCLocQPOpErr, ib.VendorOpcode)
		return false
	}
	if !w.Dst.IsValid() {
		q.FailSend(w, ib.WCLocQPOpErr, ib.VendorPD)
		return false
	}
	n := int(w.Length)
	if w.Length > uint32(q.MTU) {
		q.FailSend(w, ib.WCLocLenErr, ib.VendorMTU)
		return false
	}
	path := q.pathTo(w)
	if path == nil {
		q.FailSend(w, ib.WCLocQPOpErr, ib.VendorNone)
		return false
	}
	h := q.BTH(op, q.psn)
	h.DestQP = w.RemoteQPN
	h.Pad = wire.PadBytes(n)
	h.Solicited = w.Flags&ib.SendSolicited != 0
	size := op.Info().HeaderBytes + n + int(h.Pad) + wire.ICRCBytes

	spans, s, v := q.Gather(b.Scratch(), w, 0, n)
	if s != ib.WCSuccess {
		q.FailSend(w, s, v)
		return false
	}
	defer qp.Release(spans)
	if !b.Begin(path, size, h) {
		return false
	}
	key := w.QKey
	if key&privileged != 0 {
		key = q.Attr.QKey
	}
	b.DETH(wire.DETH{QKey: key, SrcQP: q.QPN})
	if op == wire.UDSendOnlyImm {
		b.ImmDt(w.Imm)
	}
	if w.Flags&ib.SendInline != 0 {
		b.Copy(w.Inline[:n])
	}
	if !b.CopySpans(spans) {
		b.Abort()
		q.FailSend(w, ib.WCLocProtErr, ib.VendorFault)
		return false
	}
	b.End()
	q.psn = q.psn.Add(1)
	q.Count[roce.SentMessages]++
	q.FinishSend(w)
	return true
}
