// SPDX-License-Identifier: BSD-2-Clause

package rdmap

import (
	"encoding/binary"

	"verbena/ib"
	"verbena/internal/monotime"
	wire "verbena/internal/wire/iwarp"
)

// responder holds the answers that are still to be sent.
type responder struct {
	out []response // READ and atomic responses, oldest first; at most IRD
	msn uint32     // of the next atomic response

	term    termState
	termMsg wire.TermMsg
}

// response answers a READ or atomic request.
type response struct {
	header wire.Header // of the request, for a Terminate
	read   wire.ReadReq
	sent   uint32
	begun  bool
	atomic bool
	reply  wire.AtomicResp
}

// peekResponse makes the next segment of the oldest response.
func (q *QP) peekResponse(now monotime.Time) bool {
	e, o := &q.resp.out[0], &q.out
	if e.atomic {
		o.header(wire.Header{Control: wire.NewControl(wire.AtomicResponse, true),
			QN: wire.QNAtomicResponse, MSN: q.resp.msn})
		o.head = e.reply.Append(o.head)
		return true
	}
	c, n := q.cut(wire.ReadResponse, e.read.Size-e.sent)
	o.header(wire.Header{Control: c, STag: e.read.SinkSTag, TO: e.read.SinkTO + uint64(e.sent)})
	if n == 0 {
		return true
	}
	s, v := q.Mem.Remote(q.PD, q.QPN, e.read.SrcSTag, e.read.SrcTO+uint64(e.sent),
		n, ib.AccessRemoteRead)
	if v != ib.VendorNone { // the key was good when the request came
		q.refuseResponse(now, v)
		o.head = o.room[:0]
		o.source = fromTerminate
		q.peekTerminate()
		return true
	}
	o.spans = append(o.spans[:0], s)
	o.payload.Spans, o.payload.Size, o.payload.Volatile = o.spans, int(n), true
	return true
}

func (q *QP) commitResponse(now monotime.Time) {
	e, o := &q.resp.out[0], &q.out
	if e.atomic {
		q.resp.msn++
	} else if e.sent += uint32(o.payload.Size); e.sent < e.read.Size {
		e.begun = true
		return
	}
	q.resp.out = q.resp.out[:copy(q.resp.out, q.resp.out[1:])]
	o.answered = true
	q.checkDisconnect(now)
}

// refuseResponse ends the stream because a response cannot go on.
func (q *QP) refuseResponse(now monotime.Time, v ib.VendorErr) {
	e := &q.resp.out[0]
	q.rx.h, q.rx.length = e.header, wire.UntaggedBytes+wire.ReadRequestBytes
	q.rx.read = e.read
	q.resp.out = q.resp.out[:0]
	q.Blame(v)
	q.terminate(now, remoteError(v), true, ib.EventQPAccessErr)
}

// remoteError returns the Terminate code for an access that the peer's request named.
//
// Spec: RFC 5040, 7.1 and figure 12 (remote protection errors).
func remoteError(v ib.VendorErr) wire.TermError {
	switch v {
	case ib.VendorKey:
		return wire.RDMAPInvalidSTag
	case ib.VendorPD, ib.VendorBound:
		return wire.RDMAPNotAssociated
	case ib.VendorAccess:
		return wire.RDMAPAccess
	case ib.VendorBounds:
		return wire.RDMAPBounds
	case ib.VendorAlign:
		return wire.RDMAPCatastrophicStream
	}
	return wire.RDMAPUnspecific
}

// taggedError returns the Terminate code for a WRITE. Missing rights are RDMAP's error, the others
// are DDP's.
//
// Spec: RFC 5041, 7 and 8.2.
func taggedError(v ib.VendorErr) wire.TermError {
	switch v {
	case ib.VendorKey:
		return wire.DDPInvalidSTag
	case ib.VendorPD, ib.VendorBound:
		return wire.DDPNotAssociated
	case ib.VendorBounds:
		return wire.DDPBounds
	}
	return remoteError(v)
}

// room reports whether one more request may be accepted. The ready-to-receive
// of an initiator has room in any case.
func (q *QP) room() bool {
	return len(q.resp.out) < max(int(q.Attr.MaxDestRdAtomic), int(b2u(q.rx.isRTR)))
}

func b2u(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// deliverRead accepts a READ request, or says why not.
func (q *QP) deliverRead() (wire.TermError, bool) {
	r := &q.rx.read
	if !q.room() { // its queue has as many buffers as IRD says
		return wire.DDPNoBuffer, false
	}
	if r.Size > 0 {
		if !q.Attr.AccessFlags.Has(ib.AccessRemoteRead) {
			return wire.RDMAPAccess, false
		}
		if r.SrcTO+uint64(r.Size) < r.SrcTO || r.SinkTO+uint64(r.Size) < r.SinkTO {
			return wire.RDMAPTOWrap, false
		}
		s, v := q.Mem.Remote(q.PD, q.QPN, r.SrcSTag, r.SrcTO, r.Size, ib.AccessRemoteRead)
		if v != ib.VendorNone {
			return remoteError(v), false
		}
		s.Release()
	}
	q.Count[RcvdReads]++
	q.resp.out = append(q.resp.out, response{header: q.rx.h, read: *r})
	return wire.TermError{}, true
}

// deliverAtomic executes an atomic request, or says why not.
func (q *QP) deliverAtomic(r wire.AtomicReq) (wire.TermError, bool) {
	if !q.room() {
		return wire.DDPNoBuffer, false
	}
	if q.set.Urdma {
		r = plain(r)
	}
	if r.Op != wire.FetchAdd && r.Op != wire.CmpSwap {
		return wire.RDMAPUnexpectedOpcode, false
	}
	if !q.Attr.AccessFlags.Has(ib.AccessRemoteAtomic) {
		return wire.RDMAPAccess, false
	}
	s, v := q.Mem.Remote(q.PD, q.QPN, r.STag, r.TO, 8, ib.AccessRemoteAtomic)
	if v != ib.VendorNone {
		return remoteError(v), false
	}
	defer s.Release()
	var word [8]byte
	if !s.CopyOut(0, word[:]) {
		return wire.RDMAPUnspecific, false
	}
	for orig := binary.NativeEndian.Uint64(word[:]); ; { // until nobody came between
		was, ok := s.CompareSwap(orig, r.Apply(orig))
		if !ok {
			return wire.RDMAPUnspecific, false
		}
		if was == orig {
			q.resp.out = append(q.resp.out,
				response{header: q.rx.h, atomic: true,
					reply: wire.AtomicResp{ID: r.ID, Orig: orig}})
			return wire.TermError{}, true
		}
		orig = was
	}
}

// plain is an atomic request of urdma in RFC 7306's terms. Urdma has another
// number for CmpSwap, and takes masks of 0 for none.
func plain(r wire.AtomicReq) wire.AtomicReq {
	switch r.Op {
	case wire.UrdmaCmpSwap:
		r.Op = wire.CmpSwap
		if r.AddSwapMask == 0 {
			r.AddSwapMask = ^uint64(0)
		}
		if r.CompareMask == 0 {
			r.CompareMask = ^uint64(0)
		}
	case wire.CmpSwap:
		r.Op = noAtomic
	}
	return r
}

// noAtomic is a number that no operation has.
const noAtomic wire.AtomicOp = 15
