// SPDX-License-Identifier: BSD-2-Clause

package rdma

import (
	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/ntb/channel"
	wire "verbena/internal/wire/ntb"
)

// responder is a message of several pieces that is under way.
type responder struct {
	op     wire.WQEOp // 0: none
	got    uint32
	length uint32
	key    ib.RKey
	addr   uint64
}

// refuse ends the queue pair because of a request, as a NAK does.
//
// Spec: IBTA vol. 1, 9.9.3 and table 61 (responder error behaviour).
func (q *QP) refuse(s wire.Status, why ib.VendorErr) wire.Status {
	q.Count[Refused]++
	q.Blame(why)
	event := ib.EventQPFatal
	switch s {
	case wire.StatusInvalid:
		event = ib.EventQPReqErr
	case wire.StatusAccess:
		event = ib.EventQPAccessErr
	}
	q.fail(event)
	return s
}

// refuseRecv is refuse with an error for the receive that was taken.
func (q *QP) refuseRecv(s wire.Status, c ib.WCStatus, v ib.VendorErr) wire.Status {
	q.FailRecv(c, v)
	return q.refuse(s, v)
}

// execute carries out a request that is well-formed.
func (q *QP) execute(e *wire.WQE, b *channel.Batch) (s wire.Status, orig uint64) {
	if !q.follows(e) {
		return q.refuse(wire.StatusInvalid, ib.VendorOpcode), 0
	}
	need := ib.Access(0)
	switch {
	case e.Op.IsWrite():
		need = ib.AccessRemoteWrite
	case e.Op == wire.WQERead:
		need = ib.AccessRemoteRead
	case e.Op.IsAtomic():
		need = ib.AccessRemoteAtomic
	}
	if !q.Attr.AccessFlags.Has(need) {
		return q.refuse(wire.StatusInvalid, ib.VendorAccess), 0
	}
	switch {
	case e.Op.IsSend():
		s = q.executeSend(e)
	case e.Op.IsWrite():
		s = q.executeWrite(e)
	case e.Op == wire.WQERead:
		s = q.executeRead(e, b)
	default:
		s, orig = q.executeAtomic(e)
	}
	if s == wire.StatusDone && e.Flags&wire.WQELast != 0 {
		q.Count[RcvdMessages]++
	}
	return s, orig
}

// follows reports whether a piece may come now: the first of a message where
// none is under way, or the next one of it. The pieces of a READ each stand
// for themselves.
func (q *QP) follows(e *wire.WQE) bool {
	r := &q.resp
	if e.Op == wire.WQERead || e.Op.IsAtomic() {
		return r.op == 0
	}
	if e.Flags&wire.WQEFirst != 0 {
		return r.op == 0
	}
	return r.op == e.Op && r.got == e.Offset && r.length == e.Length && r.key == e.Key &&
		r.addr == e.Addr
}

// accept notes that a piece is in place.
func (q *QP) accept(e *wire.WQE) {
	if e.Flags&wire.WQELast != 0 {
		q.resp = responder{}
		return
	}
	q.resp = responder{op: e.Op, got: e.Offset + e.Bytes, length: e.Length, key: e.Key,
		addr: e.Addr}
}

// data returns the bytes of a piece, in the WQE or in the part of our window
// that is the peer's to fill. They may change while they are copied, to the
// peer's own harm.
func (n *Node) data(e *wire.WQE) ([]byte, bool) {
	if e.IsInline() {
		return e.Inline[:e.Bytes], true
	}
	r := &n.own.res
	off := e.DataAt - r.ArenaAt
	if off > r.ArenaBytes || uint64(e.Bytes) > r.ArenaBytes-off {
		return nil, false
	}
	return n.ch.Own().Bytes(e.DataAt, uint64(e.Bytes))
}

func (q *QP) executeSend(e *wire.WQE) wire.Status {
	data, ok := q.node.data(e)
	if !ok {
		return q.refuse(wire.StatusInvalid, ib.VendorOpcode)
	}
	if e.Flags&wire.WQEFirst != 0 {
		if !q.TakeRecv() {
			return wire.StatusRNR
		}
		if e.Length > q.Recv.Length {
			return q.refuseRecv(wire.StatusInvalid, ib.WCLocLenErr, ib.VendorLength)
		}
	}
	if s, v := q.ScatterRecv(int(e.Offset), data); s != ib.WCSuccess {
		return q.refuseRecv(wire.StatusOp, s, v)
	}
	q.accept(e)
	if e.Flags&wire.WQELast == 0 {
		return wire.StatusDone
	}
	wc := q.WC()
	*wc = ib.WC{Opcode: ib.WCRecv, ByteLen: e.Length, SrcQP: q.Attr.DestQPN}
	switch e.Op {
	case wire.WQESendImm:
		wc.Flags, wc.ImmData = ib.WCWithImm, e.Imm
	case wire.WQESendInv:
		if v := q.Mem.Invalidate(q.PD, q.QPN, ib.RKey(e.Imm), true); v != ib.VendorNone {
			return q.refuseRecv(wire.StatusAccess, ib.WCLocAccessErr, v)
		}
		wc.Flags, wc.InvalidatedRKey = ib.WCWithInv, ib.RKey(e.Imm)
	}
	q.CompleteRecv(wc, e.Flags&wire.WQESolicited != 0)
	return wire.StatusDone
}

func (q *QP) executeWrite(e *wire.WQE) wire.Status {
	// The whole range is checked at once, so that nothing is placed where not
	// everything may be; each piece checks again, as the key may go meanwhile.
	if e.Flags&wire.WQEFirst != 0 && e.Length > e.Bytes {
		s, v := q.Mem.Remote(q.PD, q.QPN, e.Key, e.Addr, e.Length, ib.AccessRemoteWrite)
		if v != ib.VendorNone {
			return q.refuse(wire.StatusAccess, v)
		}
		s.Release()
	}
	last := e.Flags&wire.WQELast != 0
	if last && e.Op == wire.WQEWriteImm && !q.TakeRecv() {
		return wire.StatusRNR
	}
	if e.Bytes > 0 { // Spec: IBTA C9-88: a WRITE of no bytes checks no key
		s, v := q.Mem.Remote(q.PD, q.QPN, e.Key, e.Addr+uint64(e.Offset), e.Bytes,
			ib.AccessRemoteWrite)
		if v != ib.VendorNone {
			return q.refuse(wire.StatusAccess, v)
		}
		status := q.place(e, &s)
		s.Release()
		if status != wire.StatusDone {
			return q.refuse(status, ib.VendorFault)
		}
	}
	q.accept(e)
	if last && e.Op == wire.WQEWriteImm {
		q.CompleteRecv(&ib.WC{Opcode: ib.WCRecvRDMAWithImm, ByteLen: e.Length, Flags: ib.WCWithImm,
			ImmData: e.Imm, SrcQP: q.Attr.DestQPN}, e.Flags&wire.WQESolicited != 0)
	}
	return wire.StatusDone
}

// place copies a piece of a WRITE to where it belongs, if it is not there.
func (q *QP) place(e *wire.WQE, s *mem.Span) wire.Status {
	if e.Flags&wire.WQEPlaced != 0 {
		return wire.StatusDone
	}
	data, ok := q.node.data(e)
	if !ok {
		return wire.StatusInvalid
	}
	if !s.CopyIn(0, data) {
		return wire.StatusAccess
	}
	return wire.StatusDone
}

// executeRead writes the bytes asked for back to where the requester wants
// them in its window.
func (q *QP) executeRead(e *wire.WQE, b *channel.Batch) wire.Status {
	q.Count[RcvdReads]++
	if e.Bytes == 0 {
		return wire.StatusDone
	}
	if e.Bytes > maxPiece || !q.node.ch.PeerContains(e.DataAt, uint64(e.Bytes)) {
		return q.refuse(wire.StatusInvalid, ib.VendorOpcode)
	}
	if e.Flags&wire.WQEFirst != 0 && e.Length > e.Bytes { // all of it, before any
		s, v := q.Mem.Remote(q.PD, q.QPN, e.Key, e.Addr, e.Length, ib.AccessRemoteRead)
		if v != ib.VendorNone {
			return q.refuse(wire.StatusAccess, v)
		}
		s.Release()
	}
	s, v := q.Mem.Remote(q.PD, q.QPN, e.Key, e.Addr+uint64(e.Offset), e.Bytes, ib.AccessRemoteRead)
	if v != ib.VendorNone {
		return q.refuse(wire.StatusAccess, v)
	}
	spans := append(q.node.spans[:0], s)
	b.Gather(e.DataAt, spans)
	clear(spans)
	q.node.spans = spans[:0]
	return wire.StatusDone
}

func (q *QP) executeAtomic(e *wire.WQE) (wire.Status, uint64) {
	s, v := q.Mem.Remote(q.PD, q.QPN, e.Key, e.Addr, 8, ib.AccessRemoteAtomic)
	switch v {
	case ib.VendorNone:
	case ib.VendorAlign:
		return q.refuse(wire.StatusInvalid, v), 0
	default:
		return q.refuse(wire.StatusAccess, v), 0
	}
	defer s.Release()
	var orig uint64
	var ok bool
	if e.Op == wire.WQECmpSwap {
		orig, ok = s.CompareSwap(e.CompareAdd, e.Swap)
	} else {
		orig, ok = s.FetchAdd(e.CompareAdd)
	}
	if !ok {
		return q.refuse(wire.StatusAccess, ib.VendorFault), 0
	}
	return wire.StatusDone, orig
}
