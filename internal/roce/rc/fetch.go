// SPDX-License-Identifier: BSD-2-Clause

package rc

import (
	"verbena/ib"
	"verbena/internal/roce"
	wire "verbena/internal/wire/roce"
)

// A target answers a READ or atomic of another process's memory when that process has answered it.
// Until then the request waits, as does all that follows. So the requester sees the order and the
// errors of one process.
//
//	requester ─READ─► target ─READ of all─────► target of the other process: checks all of it,
//	          ◄─────────── ◄──the first piece── and answers a piece
//	                       ─READ of the rest──►
//	          ◄─────────── ◄──the next piece───
//
// A target holds two pieces at most: one that the next request is answered with (asked), and one
// that the oldest response goes on with (more). Repeated READs read the memory again. The results
// of atomics are kept here, as those of this process's memory are.

// pieceBytes bounds the answer to a READ of a target for another process's requests. It is a
// multiple of each path MTU.
const pieceBytes = 64 << 10

// fetch is a request for data of another process.
type fetch struct {
	peer *awayPeer // nil: none
	// in the connection to the other process
	first, last ib.PSN
	op          wire.Operation
	// of the requester: the request, and then where the rest of the data begins
	at   ib.PSN
	eth  wire.RETH
	want int    // bytes
	data []byte // that came and were not sent
	orig uint64 // of an atomic
	done bool
	why  ib.VendorErr // why there is no answer, if there is none
}

// waits reports whether the answer is yet to come.
func (f *fetch) waits() bool { return f.peer != nil && !f.done }

// owesAway reports whether a response waits for data of another process.
func (r *responder) owesAway() bool {
	for i := range r.out {
		if r.out[i].away {
			return true
		}
	}
	return false
}

// isAway reports whether a queue is another process's.
func (q *QP) isAway(n ib.SRQN) bool {
	if q.shared == nil || q.domain(n) != nil {
		return false
	}
	_, ok := q.shared.others.Owner(n)
	return ok
}

// ask carries out shared.packet, a request of another process's memory, if that process has
// answered it. Else it asks for the answer.
func (q *QP) ask() (verdict, ib.VendorErr) {
	p, f := &q.shared.packet, &q.away.asked
	switch {
	case f.done && f.at == p.PSN && f.op == p.Info.Operation && f.eth == p.RETH:
		q.answerAsked(p)
		return accept, ib.VendorNone
	case f.waits(), q.away.cur != nil, q.resp.owesAway():
		return stall, ib.VendorNone
	case !q.room():
		return nakInvalid, ib.VendorDepth
	}
	next := fetch{peer: q.away.to, op: p.Info.Operation, at: p.PSN, eth: p.RETH}
	if next.op == wire.OpRDMARead {
		next.want = int(min(p.RETH.DMALen, pieceBytes))
	}
	switch next.send(q) {
	case NoRoom:
		return stall, ib.VendorNone
	case NoWay:
		return nakOp, ib.VendorPeerGone
	}
	*f = next
	return stall, ib.VendorNone
}

// send sends shared.packet, which is the request of the fetch.
func (f *fetch) send(q *QP) Passage {
	p, to := &q.shared.packet, f.peer
	p.PSN, p.MigReq = to.next, true
	p.Selective, p.Overtakes, p.Unawaited = false, false, false
	says := to.way.Forward(p, 1)
	if says == Passed {
		f.first = to.next
		to.next = to.next.Add(q.Packets(uint32(f.want)))
		f.last = to.next.Prev()
	}
	return says
}

// answerAsked carries out a request whose answer is there.
func (q *QP) answerAsked(p *wire.Packet) {
	a, r := &q.away, &q.resp
	f := a.asked
	a.asked = fetch{}
	if p.Info.Operation != wire.OpRDMARead {
		kind := respEmptyRead
		if p.Info.HasAtomicETH {
			kind = respAtomic
		}
		q.acceptSingle(p, kind, f.orig)
		return
	}
	last := p.PSN.Add(q.Packets(p.RETH.DMALen) - 1)
	r.epsn = last.Add(1)
	r.msn = r.msn.Add(1)
	q.save(resource{kind: respRead, first: p.PSN, last: last})
	q.oweAgain(q.readResponse(p), last)
	if !a.more.waits() {
		a.more = f
	}
}

// awayData returns data that a response goes on with, nothing if they are yet to come.
func (q *QP) awayData(o *response) ([]byte, ib.VendorErr) {
	a := &q.away
	process, _ := q.shared.others.Owner(o.srq)
	peer := a.of(process)
	if peer == nil || peer.way == nil {
		return nil, ib.VendorPeerGone
	}
	if f := &a.more; f.done && f.peer == peer && f.at == o.psn && f.eth.VA == o.va {
		if v := f.why; v != ib.VendorNone {
			*f = fetch{}
			return nil, v
		}
		if len(f.data) > 0 {
			return f.data, ib.VendorNone
		}
	}
	return nil, ib.VendorNone
}

// sendAway is sendReadResponse of data of another process, which go on when there are some.
func (q *QP) sendAway(o *response, b *roce.Burst) (sent bool, v ib.VendorErr) {
	data, v := q.awayData(o)
	if v != ib.VendorNone || len(data) == 0 {
		return false, v
	}
	return q.sendReadResponse(o, b, data)
}

// took notes that n bytes of awayData were sent, in so many packets.
func (a *away) took(n int, packets uint32) {
	f := &a.more
	f.data, f.at = f.data[n:], f.at.Add(packets)
	f.eth.VA += uint64(n)
	if len(f.data) == 0 {
		*f = fetch{}
	}
}

// FetchMore asks for the data that the oldest response goes on with, and lets a request go on that
// waited for responses. It is called when PollOutput has nothing, without the lock of a ring held.
// It reports whether there may be output.
func (q *QP) FetchMore() bool {
	r := &q.resp
	if len(r.out) > 0 && r.out[0].away && r.out[0].left > 0 && q.State() != ib.QPErr {
		return q.fetchFor(&r.out[0])
	}
	if !q.away.sent {
		return false
	}
	q.away.sent = false
	if !q.away.stalled {
		return false
	}
	q.resume()
	q.tellGap()
	return !q.away.stalled
}

// fetchFor asks for the data of a response, unless they are there, or asked for. It reports whether
// the response is to be polled again.
func (q *QP) fetchFor(o *response) bool {
	f := &q.away.more
	if f.waits() {
		return false
	}
	if data, v := q.awayData(o); v != ib.VendorNone || len(data) > 0 {
		return false // the way to the requester has no room
	}
	process, _ := q.shared.others.Owner(o.srq)
	next := fetch{peer: q.away.of(process), at: o.psn, want: int(min(o.left, pieceBytes)),
		eth: wire.RETH{VA: o.va, RKey: o.rkey, DMALen: o.left}}
	p := &q.shared.packet
	*p = wire.Packet{BTH: q.BTH(wire.XRCRDMAReadRequest, 0), XRCETH: wire.XRCETH{SRQ: o.srq},
		RETH: next.eth}
	switch next.send(q) {
	case NoRoom:
		return false
	case NoWay:
		next.done, next.why = true, ib.VendorPeerGone
	}
	*f = next
	return next.done
}

// fetchOf returns the fetch that a PSN of the connection to a process answers, or nil.
func (q *QP) fetchOf(peer *awayPeer, psn ib.PSN) *fetch {
	for _, f := range []*fetch{&q.away.asked, &q.away.more} {
		if f.peer == peer && !f.done && !psn.Before(f.first) && !psn.After(f.last) {
			return f
		}
	}
	return nil
}

// takeData takes a response of another process with data, which stands for n packets. Nothing is
// lost on the way from there, so what does not fit is nonsense.
func (q *QP) takeData(peer *awayPeer, p *wire.Packet, n uint32) {
	f := q.fetchOf(peer, p.PSN)
	last := p.PSN.Add(n - 1)
	if f == nil || last.After(f.last) || int(p.PSN.Diff(f.first))*q.MTU != len(f.data) ||
		len(p.Payload) != min(f.want-len(f.data), int(n)*q.MTU) {
		q.Count[roce.UnexpectedPacket]++
		return
	}
	q.settlePassed(peer, p.PSN)
	if f.want > 0 && f.data == nil {
		f.data = make([]byte, 0, f.want)
	}
	f.data = append(f.data, p.Payload...)
	f.orig, f.done = p.AtomicAck.Orig, last == f.last
	if f.done && f == &q.away.asked {
		q.resume()
		q.tellGap()
	}
}

// refuseFetch takes the refusal of a fetch.
func (q *QP) refuseFetch(f *fetch, code wire.Syndrome) {
	if f == &q.away.more {
		f.done, f.why = true, ib.VendorPD
		return
	}
	*f = fetch{}
	q.failAway(code)
}
