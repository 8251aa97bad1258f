// SPDX-License-Identifier: BSD-2-Clause

package rdmap

import (
	"cmp"

	"verbena/ib"
	"verbena/internal/iwarp/mpa"
	"verbena/internal/mem"
	"verbena/internal/monotime"
	wire "verbena/internal/wire/iwarp"
)

// receiver is the segment that is arriving, and the state of those to come.
type receiver struct {
	length  int // of the segment
	head    [wire.UntaggedBytes + wire.AtomicRequestBytes]byte
	have    int // bytes of head
	need    int // bytes that head is to have; they grow as they are read
	done    bool
	checked bool // the headers were found right, or bad
	h       wire.Header
	got     int  // payload bytes placed
	copied  bool // the rest of the payload is not to be read straight to its place
	isRTR   bool // it is the first since the set-up

	bad   bool // the segment cannot be carried out: term says why once it has ended
	term  wire.TermError
	fault fault

	read wire.ReadReq // of a READ request, once delivered

	sendMSN, requestMSN, atomicMSN uint32 // expected
	sendMO                         uint32 // of the SEND in progress
	sendMin                        uint64 // bytes that it has at least, by Control.More
	writing                        uint32 // bytes of the WRITE in progress
	wrote                          uint32 // … of the last one that ended

	spans []mem.Span // room for those of place
}

// fault is the outcome of the held receive, or of the oldest READ, when a segment cannot be carried
// out.
type fault struct {
	status ib.WCStatus
	vendor ib.VendorErr
	event  ib.EventType
}

// receptive reports whether segments are taken.
func (q *QP) receptive() bool {
	return q.started && q.State() >= ib.QPRTR && q.State() <= ib.QPSQD
}

// BeginSegment begins a segment of length bytes.
func (q *QP) BeginSegment(length int) {
	r := &q.rx
	r.length, r.have, r.need, r.got = length, 0, wire.ControlBytes, 0
	r.done, r.checked, r.copied, r.bad, r.fault = false, false, false, false, fault{}
	r.isRTR = q.awaiting
	if length == 0 && (!r.isRTR || q.set.RTR != mpa.RTREmpty) ||
		length > 0 && length < wire.ControlBytes {
		r.short()
	}
}

// short refuses a segment with no room for its headers.
func (r *receiver) short() { r.refuse(wire.MPAMarkerMismatch, fault{event: ib.EventQPReqErr}) }

// refuse keeps the first error of a segment until its end.
func (r *receiver) refuse(e wire.TermError, f fault) {
	if !r.bad {
		r.bad, r.term, r.fault = true, e, f
	}
}

// SegmentData takes the next bytes of the segment. Payload is placed.
func (q *QP) SegmentData(b []byte) {
	r := &q.rx
	for !r.done && !r.bad && len(b) > 0 {
		k := copy(r.head[r.have:r.need], b)
		r.have += k
		if b = b[k:]; r.have == r.need {
			q.extendHead()
		}
	}
	if len(b) > 0 && q.takesPayload() {
		q.place(b)
	}
	r.got += len(b)
}

// extendHead looks at the part of the headers that is there and asks for the rest: of a message
// that is all header, its payload too.
func (q *QP) extendHead() {
	r := &q.rx
	c, _, _ := wire.ParseControl(r.head[:r.have])
	want := c.HeaderBytes()
	if r.have >= want {
		r.h, _, _ = wire.ParseHeader(r.head[:r.have])
		switch n := r.payload(); {
		case c.Tagged:
		case c.Opcode == wire.Terminate:
			want += min(n, wire.MaxTermBytes)
		case n == c.Opcode.Info().FixedBytes:
			want += n
		}
	}
	if r.length < want {
		r.short()
		return
	}
	if r.need = want; r.have < want {
		return
	}
	r.done = true
	if !q.receptive() {
		return
	}
	r.checked = true
	if e, f, ok := q.checkHeader(); !ok {
		r.refuse(e, f)
	}
}

// takesPayload reports whether payload may be placed.
func (q *QP) takesPayload() bool {
	r := &q.rx
	return r.checked && !r.bad && q.receptive() && (r.h.Tagged || r.h.Opcode.IsSend())
}

// payload returns the payload bytes of the segment, from its length.
func (r *receiver) payload() int { return r.length - r.h.HeaderBytes() }

var reqErr = fault{event: ib.EventQPReqErr}

// checkHeader validates a segment in the order of the specifications, before
// any of its payload is placed.
//
// Spec: RFC 5041, 7 (DDP errors); RFC 5040, 7 (RDMAP errors).
func (q *QP) checkHeader() (wire.TermError, fault, bool) {
	h, info := &q.rx.h, q.rx.h.Opcode.Info()
	switch {
	case h.DV != wire.DDPVersion && h.Tagged:
		return wire.DDPTaggedVersionInvalid, reqErr, false
	case h.DV != wire.DDPVersion:
		return wire.DDPUntaggedVersionInvalid, reqErr, false
	case !h.Tagged && h.QN >= wire.NumQN:
		return wire.DDPInvalidQN, reqErr, false
	case h.RV != wire.RDMAPVersion:
		return wire.RDMAPVersionInvalid, reqErr, false
	case !info.Valid, h.Tagged != info.Tagged, !h.Tagged && h.QN != info.QN:
		return wire.RDMAPUnexpectedOpcode, reqErr, false
	case info.FixedBytes > 0 && (q.rx.payload() > info.FixedBytes):
		return wire.DDPTooLong, reqErr, false
	case info.FixedBytes > 0 && (q.rx.payload() < info.FixedBytes || !h.Last):
		return wire.RDMAPUnspecific, reqErr, false
	}
	return q.checkMessage()
}

// checkMessage validates a segment whose header is one of its opcode's.
func (q *QP) checkMessage() (wire.TermError, fault, bool) {
	switch q.rx.h.Opcode {
	case wire.RDMAWrite:
		return q.checkWrite()
	case wire.ReadResponse:
		return q.checkReadResponse()
	case wire.ReadRequest, wire.AtomicRequest:
		return q.checkOrder(q.rx.requestMSN, 0)
	case wire.AtomicResponse:
		if len(q.req.reads) == 0 || !q.req.reads[0].atomic {
			return wire.RDMAPUnexpectedOpcode, reqErr, false
		}
		return q.checkOrder(q.rx.atomicMSN, 0)
	case wire.Terminate:
		return wire.TermError{}, fault{}, true // whatever its number
	}
	return q.checkSend()
}

// checkOrder checks an untagged segment's place in its queue.
func (q *QP) checkOrder(msn, mo uint32) (wire.TermError, fault, bool) {
	if h := &q.rx.h; h.MSN != msn {
		return wire.DDPInvalidMSN, reqErr, false
	} else if h.MO != mo {
		return wire.DDPInvalidMO, reqErr, false
	}
	return wire.TermError{}, fault{}, true
}

func (q *QP) checkSend() (e wire.TermError, f fault, ok bool) {
	r := &q.rx
	if e, f, ok = q.checkOrder(r.sendMSN, r.sendMO); !ok {
		return e, f, false
	}
	if !r.h.Opcode.IsSend() && r.sendMO > 0 {
		return wire.DDPInvalidMO, reqErr, false
	}
	if !q.TakeRecv() {
		return wire.DDPNoBuffer, reqErr, false
	}
	if n := r.payload(); r.h.Opcode.IsSend() && uint64(r.sendMO)+uint64(n) > uint64(q.Recv.Length) {
		return wire.DDPTooLong, fault{ib.WCLocLenErr, ib.VendorLength, ib.EventQPReqErr}, false
	}
	if q.set.Counted && r.h.Opcode.IsSend() {
		// A later message may have been read behind it, to memory that the application relies on.
		end := uint64(r.sendMO) + uint64(r.payload())
		r.sendMin = max(r.sendMin, end+uint64(r.h.More)*uint64(r.payload()))
		if r.h.Last && end < r.sendMin {
			return wire.RDMAPUnspecific, reqErr, false
		}
	}
	return e, f, true
}

func (q *QP) checkWrite() (wire.TermError, fault, bool) {
	h, n := &q.rx.h, q.rx.payload()
	if n == 0 { // no key is looked at
		return wire.TermError{}, fault{}, true
	}
	f := fault{event: ib.EventQPAccessErr}
	if !q.Attr.AccessFlags.Has(ib.AccessRemoteWrite) {
		return wire.RDMAPAccess, f, false
	}
	if h.TO+uint64(n) < h.TO {
		return wire.DDPTOWrap, f, false
	}
	s, v := q.Mem.Remote(q.PD, q.QPN, h.STag, h.TO, uint32(n), ib.AccessRemoteWrite)
	if v != ib.VendorNone {
		return taggedError(v), f, false
	}
	s.Release()
	return wire.TermError{}, fault{}, true
}

// checkReadResponse holds a segment to the oldest READ request: sink, order and
// length.
func (q *QP) checkReadResponse() (wire.TermError, fault, bool) {
	r, n := &q.rx, q.rx.payload()
	if len(q.req.reads) == 0 || q.req.reads[0].atomic {
		return wire.RDMAPUnexpectedOpcode, reqErr, false
	}
	e := &q.req.reads[0]
	bad := fault{ib.WCBadRespErr, ib.VendorLength, ib.EventQPReqErr}
	switch {
	case r.h.STag != e.sink && (e.left > 0 || e.began):
		return wire.DDPInvalidSTag, bad, false
	case r.h.TO != e.to && (e.left > 0 || e.began), uint64(n) > uint64(e.left),
		r.h.Last != (uint32(n) == e.left):
		return wire.DDPBounds, bad, false
	}
	return wire.TermError{}, fault{}, true
}

// EndSegment notes that the segment is whole and right: its meaning takes effect.
func (q *QP) EndSegment(now monotime.Time) {
	r := &q.rx
	if !q.receptive() || r.done && !r.checked {
		q.Count[DroppedState]++
		return
	}
	q.Count[RcvdSegments]++
	q.awaiting = false
	q.nudge.heard()
	if !r.done && r.length > 0 {
		r.short()
	}
	if !r.bad && r.length > 0 {
		q.Count[RcvdBytes] += uint64(r.payload())
		q.deliver(now)
	}
	if r.bad {
		if r.term == wire.MPAMarkerMismatch {
			q.Count[MalformedSegment]++
		}
		q.refuse(now)
	}
}

// refuse ends the stream with the error that the segment's checks have found.
func (q *QP) refuse(now monotime.Time) {
	r := &q.rx
	if r.fault.status != ib.WCSuccess {
		if r.h.Opcode == wire.ReadResponse || r.h.Opcode == wire.AtomicResponse {
			q.completeOldestRead(r.fault.status, r.fault.vendor)
		} else {
			q.FailRecv(r.fault.status, r.fault.vendor)
		}
	}
	q.Blame(cmp.Or(r.fault.vendor, causeOf(r.term)))
	q.terminate(now, r.term, r.term.Layer != wire.LayerLLP, r.fault.event)
}

// deliver carries out a segment's request.
func (q *QP) deliver(now monotime.Time) {
	r := &q.rx
	body := r.head[r.h.HeaderBytes():r.have]
	ok, e := true, wire.TermError{}
	switch r.h.Opcode {
	case wire.RDMAWrite:
		q.deliverWrite()
	case wire.ReadResponse:
		q.deliverReadResponse(now)
	case wire.ReadRequest:
		r.requestMSN++
		r.read, _, _ = wire.ParseReadReq(body)
		e, ok = q.deliverRead()
	case wire.AtomicRequest:
		r.requestMSN++
		a, _, _ := wire.ParseAtomicReq(body)
		e, ok = q.deliverAtomic(a)
	case wire.AtomicResponse:
		r.atomicMSN++
		a, _, _ := wire.ParseAtomicResp(body)
		if a.ID != q.req.reads[0].id {
			r.refuse(wire.RDMAPUnspecific,
				fault{ib.WCBadRespErr, ib.VendorOpcode, ib.EventQPReqErr})
			return
		}
		e, ok = q.finishAtomic(now, a.Orig)
	case wire.Terminate:
		q.handleTerminate(now, body)
	case wire.Immediate, wire.ImmediateSE:
		i, _, _ := wire.ParseImmData(body)
		r.sendMSN++
		q.completeRecv(ib.WC{Opcode: ib.WCRecvRDMAWithImm, ByteLen: r.wrote, Flags: ib.WCWithImm,
			ImmData: i.Data})
	default:
		q.deliverSend()
	}
	switch {
	case ok:
	case e == wire.RDMAPLocalCatastrophic:
		r.refuse(e, fault{event: ib.EventQPFatal})
	default:
		r.refuse(e, fault{event: ib.EventQPAccessErr})
	}
}

func (q *QP) deliverWrite() {
	r := &q.rx
	r.writing += uint32(r.payload())
	if r.h.Last {
		r.wrote, r.writing = r.writing, 0
		q.Count[RcvdMessages]++
	}
}

func (q *QP) deliverReadResponse(now monotime.Time) {
	e, n := &q.req.reads[0], uint32(q.rx.payload())
	e.to, e.left, e.began = e.to+uint64(n), e.left-n, true
	if q.rx.h.Last {
		q.finishRead(now)
	}
}

func (q *QP) deliverSend() {
	r := &q.rx
	r.sendMO += uint32(r.payload())
	if !r.h.Last {
		return
	}
	wc := ib.WC{Opcode: ib.WCRecv, ByteLen: r.sendMO}
	r.sendMSN++
	r.sendMO, r.sendMin = 0, 0
	if r.h.Opcode.Info().Invalidates {
		if v := q.Mem.Invalidate(q.PD, q.QPN, r.h.STag, true); v != ib.VendorNone {
			r.refuse(wire.RDMAPCannotInvalidate, fault{ib.WCLocAccessErr, v, ib.EventQPAccessErr})
			return
		}
		wc.Flags, wc.InvalidatedRKey = ib.WCWithInv, r.h.STag
	}
	q.completeRecv(wc)
}

func (q *QP) completeRecv(wc ib.WC) {
	q.Count[RcvdMessages]++
	q.CompleteRecv(&wc, q.rx.h.Opcode.Info().Solicited)
}
