// SPDX-License-Identifier: BSD-2-Clause

package rc

import (
	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/qp"
	"verbena/internal/queue"
	"verbena/internal/roce"
	wire "verbena/internal/wire/roce"
)

// sendMiddles adds packets from the middle of the SEND or WRITE w as one run. Where it adds none
// sendPacket sends them one by one, with the same bytes.
func (q *QP) sendMiddles(now monotime.Time, w *queue.SendWQE, b *roce.Burst) {
	r := &q.req
	op := roce.DataOpcode(wire.RCSendFirst, w.Opcode, false, false)
	h := q.BTH(op, r.next)
	h.Selective, h.AllRETH = true, q.allRETH(op, w, b)
	n := q.middles(w, b, h.Row().HeaderBytes)
	if !q.whole(w) {
		n = r.loss.Room(now, q.MTU, n)
	}
	if n < 2 {
		return
	}
	spans, status, _ := q.Gather(b.Scratch(), w, int(r.off), n*q.MTU)
	if status != ib.WCSuccess {
		return
	}
	if n = b.Run(q.Path, h, reth(w, r.off), spans[0], q.MTU, n); n == 0 {
		qp.Release(spans)
		return
	}
	r.next = r.next.Add(uint32(n))
	r.max, r.ordered = r.next, r.next
	r.off += uint32(n * q.MTU)
	r.sinceAckReq += n
	for range n {
		r.loss.Sent(now, q.packetBytes())
	}
}

// middles returns how many packets from the middle of w may go now, from one entry of its list.
// These were never sent, and ask for no acknowledgement. Each has so many bytes of headers.
func (q *QP) middles(w *queue.SendWQE, b *roce.Burst, headers int) int {
	r := &q.req
	if r.off == 0 || r.next != r.max || r.filling || r.probing || q.base != 0 ||
		w.Flags&ib.SendInline != 0 || w.Opcode != ib.WRRDMAWrite && !consumesRecv(w.Opcode) ||
		q.Rate.Limited() || r.loss.missed(r.next) {
		return 0
	}
	n := min(int(w.Length-r.off-1)/q.MTU, b.RunRoom(q.Path, q.Attr.DestQPN, headers, q.MTU),
		q.windowPackets()-1-r.outstanding(), q.spanPackets()-int(r.next.Diff(r.una)))
	if !q.endsSoon(w, 1) {
		n = min(n, q.ackEvery()-1-r.sinceAckReq)
	}
	if n < 2 {
		return 0
	}
	return min(n, entryLeft(w.SGE, r.off)/q.MTU)
}

// entryLeft returns how many bytes an entry of the list has from the data's offset off on, which is
// in it.
func entryLeft(list []ib.SGE, off uint32) int {
	for i := range list {
		if n := list[i].Length; off < n {
			return int(n - off)
		}
		off -= list[i].Length
	}
	return 0
}

// allRETH reports whether packets of w with an opcode, as long as the path MTU, have a RETH,
// although they are not the first: see BTH.AllRETH. Then one burst has the packets of several
// WRITEs, where otherwise each First begins another. Longer WRITEs have few Firsts. Shorter packets
// would lose more than half a percent of the link's rate to headers.
//
// Row: WRITE 64 KiB, UDP.
//
// Deviation: IBTA vol. 1, 9.3: only the First of a WRITE has a RETH.
func (q *QP) allRETH(op wire.Opcode, w *queue.SendWQE, b *roce.Burst) bool {
	return (op == wire.RCRDMAWriteMiddle || op == wire.RCRDMAWriteLast) && q.req.readsRETHs &&
		q.base == 0 && q.MTU == ib.MTU4096.Bytes() && b.IsCut() &&
		q.Packets(w.Length) <= roce.MaxSegments
}

// reth returns the RETH of the packet of w that begins at off.
func reth(w *queue.SendWQE, off uint32) wire.RETH {
	return wire.RETH{VA: w.RemoteAddr + uint64(off), RKey: w.RKey, DMALen: w.Length - off}
}
