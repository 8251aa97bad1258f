// SPDX-License-Identifier: BSD-2-Clause

package qp

import (
	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/queue"
)

// Gather opens the n bytes from off of w's data, appending to spans. The spans are held; Release
// gives them back. With any status but success none is. Inline data needs no span.
func (q *Core) Gather(spans []mem.Span, w *queue.SendWQE, off, n int) ([]mem.Span, ib.WCStatus,
	ib.VendorErr) {
	if w.Flags&ib.SendInline != 0 || n == 0 {
		return spans, ib.WCSuccess, ib.VendorNone
	}
	for i := range w.SGE {
		g := w.SGE[i]
		if uint32(off) >= g.Length {
			off -= int(g.Length)
			continue
		}
		g.Addr += uint64(off)
		g.Length = min(g.Length-uint32(off), uint32(n))
		off = 0
		s, v := q.Mem.Local(q.PD, g, 0)
		if v != ib.VendorNone {
			Release(spans)
			return nil, ib.WCLocProtErr, v
		}
		spans = append(spans, s)
		if n -= int(g.Length); n == 0 {
			return spans, ib.WCSuccess, ib.VendorNone
		}
	}
	Release(spans)
	return nil, ib.WCLocLenErr, ib.VendorLength
}

// Release gives back the spans of Gather.
func Release(spans []mem.Span) {
	for i := range spans {
		spans[i].Release()
	}
}

// Scatter copies data into the scatter list of a work request of the send queue from off on. The
// status says why not all of it was written.
func (q *Core) Scatter(list []ib.SGE, off int, data []byte) (ib.WCStatus, ib.VendorErr) {
	return q.scatter(q.PD, list, off, data)
}

// ScatterRecv is Scatter into the receive held.
func (q *Core) ScatterRecv(off int, data []byte) (ib.WCStatus, ib.VendorErr) {
	return q.scatter(q.RecvPD(), q.Recv.SGE, off, data)
}

// RecvPD returns the domain by which receives are judged: with a shared receive
// queue its own, which may be another than the queue pair's.
//
// Spec: IBTA vol. 1, 10.2.3 (protection domains).
func (q *Core) RecvPD() mem.PD {
	if q.SRQ {
		return q.SRQPD
	}
	return q.PD
}

func (q *Core) scatter(pd mem.PD, list []ib.SGE, off int, data []byte) (ib.WCStatus, ib.VendorErr) {
	for i := 0; i < len(list) && len(data) > 0; i++ {
		g := list[i]
		if uint32(off) >= g.Length {
			off -= int(g.Length)
			continue
		}
		g.Addr += uint64(off)
		g.Length = min(g.Length-uint32(off), uint32(len(data)))
		off = 0
		v, ok := q.Mem.PutLocal(&q.placed, pd, g, data[:g.Length])
		if v != ib.VendorNone {
			return ib.WCLocProtErr, v
		}
		if !ok {
			return ib.WCLocProtErr, ib.VendorFault
		}
		data = data[g.Length:]
	}
	if len(data) > 0 {
		return ib.WCLocLenErr, ib.VendorLength
	}
	return ib.WCSuccess, ib.VendorNone
}
