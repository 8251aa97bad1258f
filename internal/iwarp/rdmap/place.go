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
	q.release()
	if !q.openTarget(len(b)) {
		return
	}
	for i := range r.spans {
		s := &r.spans[i]
		n := s.Len()
		if !s.CopyIn(0, b[:n]) {
			q.targetFault(ib.VendorFault)
			break
		}
		b = b[n:]
	}
	q.release()
}

// release gives back what openTarget holds.
func (q *QP) release() {
	qp.Release(q.rx.spans)
	clear(q.rx.spans)
	q.rx.spans = q.rx.spans[:0]
}

// openTarget opens the memory that the next n payload bytes belong to. The keys
// are looked at for each piece: they may be gone meanwhile.
func (q *QP) openTarget(n int) bool {
	r := &q.rx
	var s mem.Span
	var v ib.VendorErr
	at := uint64(r.got)
	switch r.h.Opcode {
	case wire.RDMAWrite:
		s, v = q.Mem.Remote(q.PD, q.QPN, r.h.STag, r.h.TO+at, uint32(n), ib.AccessRemoteWrite)
	case wire.ReadResponse:
		s, v = q.Mem.Local(q.PD, ib.SGE{Addr: r.h.TO + at, Length: uint32(n), LKey: ib.LKey(r.h.STag)}, ib.AccessLocalWrite)
	default:
		return q.openRecv(int(r.sendMO)+r.got, n)
	}
	if v != ib.VendorNone {
		q.targetFault(v)
		return false
	}
	r.spans = append(r.spans, s)
	return true
}

// openRecv opens n bytes from off of the receive held.
func (q *QP) openRecv(off, n int) bool {
	for i := 0; n > 0; i++ {
		g := q.Recv.SGE[i]
		if uint32(off) >= g.Length {
			off -= int(g.Length)
			continue
		}
		g.Addr += uint64(off)
		g.Length = min(g.Length-uint32(off), uint32(n))
		off = 0
		s, v := q.Mem.Local(q.PD, g, ib.AccessLocalWrite)
		if v != ib.VendorNone {
			q.release()
			q.targetFault(v)
			return false
		}
		q.rx.spans = append(q.rx.spans, s)
		n -= int(g.Length)
	}
	return true
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

// Place appends to iov where the next payload bytes, up to max of them, may be
// read to, and returns how many there is room for; 0 where they have to be
// given to SegmentData. The memory is held until Placed, SegmentData or
// EndSegment.
func (q *QP) Place(iov [][]byte, max int) ([][]byte, int) {
	r := &q.rx
	if !q.takesPayload() {
		return iov, 0
	}
	n := min(max, r.payload()-r.got)
	q.release()
	if n <= 0 || !q.openTarget(n) {
		return iov, 0
	}
	for i := range r.spans {
		iov = r.spans[i].AppendSlices(iov, 0, r.spans[i].Len())
	}
	return iov, n
}

// Placed tells that n payload bytes were read to where Place said.
func (q *QP) Placed(n int) {
	q.release()
	q.rx.got += n
	q.Count[PlacedDirect] += uint64(n)
}

// PlaceFault tells that Place's memory is not mapped any more.
func (q *QP) PlaceFault() { q.targetFault(ib.VendorFault) }
