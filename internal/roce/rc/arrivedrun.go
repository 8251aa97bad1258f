// SPDX-License-Identifier: BSD-2-Clause

package rc

import (
	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/monotime"
	"verbena/internal/roce"
	wire "verbena/internal/wire/roce"
)

// HandleRun implements roce.Acknowledged. Packets that come in their turn, from the middle of a
// message that is going well, are judged and looked up once. Each other is for HandleInput.
func (q *QP) HandleRun(now monotime.Time, p *wire.Packet, m *roce.Meta, run roce.Run) {
	n := 0
	if q.base == 0 && len(p.Payload) == q.MTU && q.AdmitRun(p, m, wire.ServiceRC) {
		if p.Info.Response {
			n = q.readRun(now, p, run)
		} else if q.Established(); p.PSN == q.resp.epsn {
			n = q.performRun(p, run)
		}
		q.AdmittedRun(p, n)
	}
	for ; n < run.Len(); n++ {
		p.Parse(run.Datagram(n))
		q.HandleInput(now, p, m)
	}
}

// performRun places requests that are expected next, and returns how many of them.
func (q *QP) performRun(p *wire.Packet, run roce.Run) (n int) {
	r := &q.resp
	if p.AckReq || r.naked || r.kept.count > 0 || q.checkSequence(p) != accept {
		return 0
	}
	switch r.in {
	case inWrite:
		if uint64(r.got)+uint64(run.Len()*q.MTU) >= uint64(r.total) {
			return 0
		}
		n = q.writeRun(run)
		r.va += uint64(n * q.MTU)
	case inSend:
		n = q.scatterRun(q.RecvPD(), q.Recv.SGE, int(r.got), run)
	}
	r.got += uint32(n * q.MTU)
	r.epsn = r.epsn.Add(uint32(n))
	return n
}

// writeRun places packets of a WRITE, and returns how many of them.
func (q *QP) writeRun(run roce.Run) (n int) {
	r := &q.resp
	s, v := q.Mem.Remote(q.PD, q.QPN, r.rkey, r.va, uint32(run.Len()*q.MTU), ib.AccessRemoteWrite)
	if v != ib.VendorNone {
		return 0
	}
	n = q.copyRun(&s, run)
	s.Release()
	return n
}

// scatterRun writes a run's payload to a list, from offset off on, and returns how many packets.
func (q *QP) scatterRun(pd mem.PD, list []ib.SGE, off int, run roce.Run) (n int) {
	for len(list) > 0 && uint32(off) >= list[0].Length {
		off -= int(list[0].Length)
		list = list[1:]
	}
	if len(list) == 0 {
		return 0
	}
	g := list[0]
	g.Addr += uint64(off)
	if n = min(run.Len(), int(g.Length-uint32(off))/q.MTU); n == 0 {
		return 0
	}
	g.Length = uint32(n * q.MTU)
	s, v := q.Mem.Local(pd, g, ib.AccessLocalWrite)
	if v != ib.VendorNone {
		return 0
	}
	n = q.copyRun(&s, run.First(n))
	s.Release()
	return n
}

// copyRun writes a run's payload to memory, and returns how many packets.
func (q *QP) copyRun(s *mem.Span, run roce.Run) int {
	return s.CopyInEach(run.Data[wire.BTHBytes:], q.MTU, run.Bytes, run.Len())
}

// readRun places responses of a READ that are expected next, and returns how many of them.
func (q *QP) readRun(now monotime.Time, p *wire.Packet, run roce.Run) (n int) {
	r := &q.req
	if q.State() != ib.QPRTS && q.State() != ib.QPSQD || p.PSN != r.una || r.board.inUse() ||
		len(r.reads) == 0 || p.PSN.Before(r.reads[0].first) {
		return 0
	}
	e := &r.reads[0]
	if end := p.PSN.Add(uint32(run.Len())); end.After(e.last) || end.After(r.max) ||
		e.wqe < q.SQ.Head() || e.wqe >= q.SQ.Tail() {
		return 0
	}
	w := q.SQ.AtAbs(e.wqe)
	off := int(p.PSN.Diff(w.FirstPSN)) * q.MTU
	if w.Opcode != ib.WRRDMARead || off+run.Len()*q.MTU > int(w.Length) {
		return 0
	}
	r.own = r.own || p.Selective
	if n = q.scatterRun(q.PD, w.SGE, off, run); n > 0 {
		q.progress(now, p.PSN.Add(uint32(n)))
	}
	return n
}
