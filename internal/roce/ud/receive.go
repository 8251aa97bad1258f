// SPDX-License-Identifier: BSD-2-Clause

package ud

import (
	"verbena/ib"
	"verbena/internal/roce"
	wire "verbena/internal/wire/roce"
)

// receive takes a datagram. One with any error is dropped in silence.
//
// Spec: IBTA vol. 1, 9.8.3 (unreliable datagram), 9.6.1 (header validation).
func (q *QP) receive(p *wire.Packet, m *roce.Meta) {
	n := len(p.Payload)
	switch {
	case !p.Info.Valid:
		q.Count[roce.UnexpectedPacket]++
		return
	case p.DETH.QKey != q.Attr.QKey:
		q.Count[roce.WrongQKey]++
		q.Violation(true)
		return
	case n > q.MTU:
		q.Count[roce.DroppedMessage]++
		return
	case !q.TakeRecv():
		q.Count[roce.DroppedNoRecv]++
		return
	case uint64(n)+GRHBytes > uint64(q.Recv.Length):
		// The receive stays for the next message: a sender must not be able to
		// stop a queue pair that many others talk to.
		q.Count[roce.DroppedMessage]++
		return
	}
	q.Established()
	grh := networkHeader(m, len(p.Raw))
	s, v := q.ScatterRecv(0, grh[:])
	if s == ib.WCSuccess {
		s, v = q.ScatterRecv(GRHBytes, p.Payload)
	}
	if s != ib.WCSuccess {
		q.FailRecv(s, v)
		q.Stop(ib.EventQPFatal)
		return
	}
	q.Count[roce.RcvdMessages]++
	wc := ib.WC{Opcode: ib.WCRecv, ByteLen: uint32(n) + GRHBytes, SrcQP: p.DETH.SrcQP,
		Flags: ib.WCGRH, SL: headerKind(m)}
	if p.Info.HasImm {
		wc.Flags, wc.ImmData = ib.WCGRH|ib.WCWithImm, p.ImmDt.Data
	}
	q.CompleteRecv(&wc, p.Solicited)
}
