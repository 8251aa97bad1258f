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
	spans, v := q.openTarget(r.spans[:0], len(b))
	if v != ib.VendorNone {
		q.targetFault(v)
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
func (q *QP) openTarget(spans []mem.Span, n int) ([]mem.Span, ib.VendorErr) {
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
		return spans, v
	}
	return append(spans, s), v
}

// openRecv opens n bytes from off of the receive held.
func (q *QP) openRecv(spans []mem.Span, off, n int) ([]mem.Span, ib.VendorErr) {
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
			return release(spans), v
		}
		spans = append(spans, s)
		n -= int(g.Length)
	}
	return spans, ib.VendorNone
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

// layout is the memory of one read: the rest of a segment's payload, and the segments behind it.
type layout struct {
	first  int // payload bytes of the segment that is arriving
	size   int // … of each behind it
	behind int // segments
}

// bytes returns the payload bytes of all segments.
func (l *layout) bytes() int { return l.first + l.behind*l.size }

// openPlace opens the memory for the payload that is to be read next: run bytes of the segment
// that is arriving, and others behind it if alone is false. There is none where it has to be given
// to SegmentData, and l.first is 0 then. Unless it is, closePlace must follow, also after a failed
// read or the end of the queue pair: until then the memory is held.
func (q *QP) openPlace(run int, alone bool) (l layout) {
	r := &q.rx
	if len(q.placing) > 0 {
		panic("rdmap: memory is opened for a read already")
	}
	if r.copied || !q.takesPayload() {
		return layout{}
	}
	l = layout{first: min(run, r.payload()-r.got), size: r.payload()}
	if l.first <= 0 {
		return layout{}
	}
	if !alone {
		l.behind = q.promised()
	}
	var v ib.VendorErr
	if q.placing, v = q.openTarget(q.placing, l.bytes()); v != ib.VendorNone && l.behind > 0 {
		l.behind = 0
		q.placing, v = q.openTarget(q.placing, l.first)
	}
	if v != ib.VendorNone {
		q.targetFault(v)
		return layout{}
	}
	for i := range q.placing {
		if q.placing[i].Null() { // SegmentData discards the bytes
			q.closePlace()
			q.Unplaceable()
			return layout{}
		}
	}
	return l
}

// promised returns how many segments follow the one that is arriving, by Control.More: none if they
// would not fit.
func (q *QP) promised() int {
	r := &q.rx
	if !q.set.Counted || r.h.More == 0 {
		return 0
	}
	room, n := uint64(0), uint64(r.payload())*(1+uint64(r.h.More))
	switch r.h.Opcode {
	case wire.RDMAWrite:
		room = -r.h.TO - 1 // the key's range is looked at by openTarget
	case wire.ReadResponse:
		room = uint64(q.req.reads[0].left)
	default:
		room = uint64(q.Recv.Length) - uint64(r.sendMO)
	}
	if n > room {
		return 0
	}
	return int(r.h.More)
}

// appendPlace appends to iov n bytes of openPlace's memory from off on.
func (q *QP) appendPlace(iov [][]byte, off, n int) [][]byte {
	for i := 0; n > 0; i++ {
		s := &q.placing[i]
		if off >= s.Len() {
			off -= s.Len()
			continue
		}
		k := min(n, s.Len()-off)
		iov = s.AppendSlices(iov, off, k)
		off, n = 0, n-k
	}
	return iov
}

// placed handles n payload bytes of a segment, none if nothing came, that were read to their place.
func (q *QP) placed(n int) {
	q.rx.got += n
	q.Count[PlacedDirect] += uint64(n)
}

// closePlace lets go of openPlace's memory.
func (q *QP) closePlace() { q.placing = release(q.placing) }

// Unplaceable notes that Place's memory could not be read to: the rest of the segment will be
// copied there, which reveals the memory's state.
func (q *QP) Unplaceable() { q.rx.copied = true }

// PlaceFault notes that the bytes in Place's memory cannot be read again.
func (q *QP) PlaceFault() { q.targetFault(ib.VendorFault) }
