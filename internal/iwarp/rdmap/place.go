// SPDX-License-Identifier: BSD-2-Clause

package rdmap

import (
	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/qp"
	wire "verbena/internal/wire/iwarp"
)

// place copies the next payload bytes to where they belong.
func (q *QP) place(b []byte) {
	r := &q.rx
	spans, ok := q.openTarget(r.spans[:0], len(b))
	if !ok {
		return
	}
	for i := range spans {
		s := &spans[i]
		n := s.Len()
		if !s.CopyIn(0, b[:n]) {
			q.targetFault(ib.VendorFault)
			break
		}
		b = b[n:]
	}
	r.spans = release(spans)
}

// release gives spans back and returns their room.
func release(spans []mem.Span) []mem.Span {
	qp.Release(spans)
	clear(spans)
	return spans[:0]
}

// openTarget opens the memory that the next n payload bytes belong to, appending
// to spans. The keys are looked at for each piece: they may be gone meanwhile.
func (q *QP) openTarget(spans []mem.Span, n int) ([]mem.Span, bool) {
	r := &q.rx
	var s mem.Span
	var v ib.VendorErr
	at := uint64(r.got)
	switch r.h.Opcode {
	case wire.RDMAWrite:
		s, v = q.Mem.Remote(q.PD, q.QPN, r.h.STag, r.h.TO+at, uint32(n), ib.AccessRemoteWrite)
	case wire.ReadResponse:
		s, v = q.Mem.Local(q.PD,
			ib.SGE{Addr: r.h.TO + at, Length: uint32(n),
				LKey: ib.LKey(r.h.STag)}, ib.AccessLocalWrite)
	default:
		return q.openRecv(spans, int(r.sendMO)+r.got, n)
	}
	if v != ib.VendorNone {
		q.targetFault(v)
		return spans, false
	}
	return append(spans, s), true
}

// openRecv opens n bytes from off of the receive held.
func (q *QP) openRecv(spans []mem.Span, off, n int) ([]mem.Span, bool) {
	for i := 0; n > 0; i++ {
		g := q.Recv.SGE[i]
		if uint32(off) >= g.Length {
			off -= int(g.Length)
			continue
		}
		g.Addr += uint64(off)
		g.Length = min(g.Length-uint32(off), uint32(n))
		off = 0
		s, v := q.Mem.Local(q.RecvPD(), g, ib.AccessLocalWrite)
		if v != ib.VendorNone {
			q.targetFault(v)
			return release(spans), false
		}
		spans = append(spans, s)
		n -= int(g.Length)
	}
	return spans, true
}

// targetFault refuses the segment because its memory cannot be written.
func (q *QP) targetFault(v ib.VendorErr) {
	r := &q.rx
	switch r.h.Opcode {
	case wire.RDMAWrite:
		r.refuse(taggedError(v), fault{event: ib.EventQPAccessErr})
	default: // our own application's fault
		r.refuse(wire.RDMAPLocalCatastrophic, fault{ib.WCLocProtErr, v, ib.EventQPFatal})
	}
}

// Place appends to iov the memory for the next payload bytes, up to max of them, and returns the
// room there. It is 0 where they have to be given to SegmentData. Unless it is 0, Placed must
// follow, also after a failed read or the end of the queue pair: until then the memory is held.
func (q *QP) Place(iov [][]byte, max int) ([][]byte, int) {
	if len(q.placing) > 0 {
		panic("rdmap: Place without Placed")
	}
	if q.rx.copied || !q.takesPayload() {
		return iov, 0
	}
	n := min(max, q.rx.payload()-q.rx.got)
	if n <= 0 {
		return iov, 0
	}
	before := len(iov)
	var ok bool
	if q.placing, ok = q.openTarget(q.placing, n); !ok {
		return iov, 0
	}
	for i := range q.placing {
		if q.placing[i].Null() { // SegmentData discards the bytes
			q.placing = release(q.placing)
			q.Unplaceable()
			return iov[:before], 0
		}
		iov = q.placing[i].AppendSlices(iov, 0, q.placing[i].Len())
	}
	return iov, n
}

// Placed handles n payload bytes, none if nothing came, that were read to Place's memory.
func (q *QP) Placed(n int) {
	q.placing = release(q.placing)
	q.rx.got += n
	q.Count[PlacedDirect] += uint64(n)
}

// Unplaceable notes that Place's memory could not be read to: the rest of the segment will be
// copied there, which reveals the memory's state.
func (q *QP) Unplaceable() { q.rx.copied = true }

// PlaceFault notes that the bytes in Place's memory cannot be read again.
func (q *QP) PlaceFault() { q.targetFault(ib.VendorFault) }
