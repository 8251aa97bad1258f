// SPDX-License-Identifier: BSD-2-Clause

package rc

import (
	"slices"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/roce"
	wire "verbena/internal/wire/roce"
)

// The shared receive queues of a domain may belong to several processes. A target passes the
// packets of a message for another process's queue on to that process, in a connection that nothing
// is lost in. A target there, which has no requester of its own, carries them out and answers. The
// requester gets that answer, and none before: it sees one responder.
//
//	requester ──PSN──► target ──PSN of the connection──► target of the other process
//	          ◄─ ACK, NAK ─┘ ◄────────── ACK, NAK ─────────┘
//
// Requests keep their order: the next one for another place waits until all that were passed on
// are answered (stall). An RNR NAK takes the target back to where it was before the request. None
// of those behind it was carried out. The requester repeats them, but for those that it was told
// were kept. Until all are answered it is not told of gaps, as that would acknowledge them.
// READs and atomics are described in fetch.go.

// Forwarder is the way to a target of another process. It loses nothing while that process lives.
type Forwarder interface {
	// Forward sends a request packet that stands for so many, to the queue pair that it knows.
	Forward(p *wire.Packet, packets uint32) Passage
}

// Passage is the outcome of Forward.
type Passage uint8

// Outcomes of Forward.
const (
	Passed Passage = iota
	NoRoom         // now; the caller of the target calls Retry later
	NoWay          // ever again
)

// Others are the processes that share a target's domain. They are called with the target locked,
// and do not block.
type Others interface {
	// Owner returns the process that has a number of shared receive queues; ok is false if it is
	// this one, or none.
	Owner(n ib.SRQN) (process int, ok bool)
	// Ask has a process take requests, whose packets begin with first. Answered is called later.
	Ask(process int, first ib.PSN)
	// LeaveAll ends everything that Ask has begun.
	LeaveAll()
}

// Share has a target pass requests on to other processes. It is called before any other method.
func (q *QP) Share(o Others) {
	q.shared = &shared{others: o, check: (*QP).checkAway, pass: (*QP).pass, send: (*QP).sendAway,
		begin: map[int]ib.PSN{}}
}

// shared has the processes that share a target's domain. The linker leaves its functions out of
// programs that do not call Share.
type shared struct {
	others Others
	check  func(*QP, ib.SRQN) (verdict, ib.VendorErr)
	pass   func(*QP, uint32) (verdict, ib.VendorErr)
	send   func(*QP, *response, *roce.Burst) (bool, ib.VendorErr)
	packet wire.Packet // the one to pass on
	// where the next connection to a process begins: answers of the last may come yet
	begin map[int]ib.PSN
}

// away is the part of a target that passes requests on.
type away struct {
	peers   []*awayPeer
	to      *awayPeer     // the one that the request being handled is for; nil: this process
	cur     *awayPeer     // the one that has unanswered requests; nil without
	stalled bool          // the request expected is kept until it can be carried out
	due     monotime.Time // when it is carried out, where it only waits its turn; 0: it does not
	sent    bool          // a response with data of another process has gone, or will not come
	asked   fetch         // for the request expected
	more    fetch         // for the oldest response
	gap     bool          // requests are missing, and the requester was not told
	// The request being handled, if it was kept. Its memory goes back once that is done, or once it
	// is answered if it is passed on.
	from *keptRequest
}

// of returns the peer that is a process, nil if nothing was for it.
func (a *away) of(process int) *awayPeer {
	for _, p := range a.peers {
		if p.process == process {
			return p
		}
	}
	return nil
}

// awayPeer is another process.
type awayPeer struct {
	process int
	way     Forwarder // nil until it has answered
	refused bool
	next    ib.PSN   // of the next packet in the connection
	sent    []passed // unanswered, oldest first
}

// passed is a packet that was passed on.
type passed struct {
	psn    ib.PSN // in the connection
	before place
	ack    bool         // the requester wants an acknowledgement
	kept   *keptRequest // it was kept: the requester may have been told that it need not repeat it
}

// place is the part of a responder's state that passing a packet on changes.
type place struct {
	epsn       ib.PSN
	msn        ib.MSN
	in         message
	got, total uint32
	srq        ib.SRQN
}

// maxPassed bounds the unanswered packets of a target. awayAckEvery is the number of packets of a
// long message after which the other process acknowledges, for the requester may not ask for it.
const (
	maxPassed    = 256
	awayAckEvery = 32
)

func (r *responder) place() place {
	return place{r.epsn, r.msn, r.in, r.got, r.total, r.srq}
}

func (r *responder) goBack(p *place) {
	r.epsn, r.msn, r.in, r.got, r.total, r.srq = p.epsn, p.msn, p.in, p.got, p.total, p.srq
}

// checkAway is checkXRC of a number that this process has no queue for.
func (q *QP) checkAway(n ib.SRQN) (verdict, ib.VendorErr) {
	process, ok := q.shared.others.Owner(n)
	if !ok {
		return nakAccess, ib.VendorPD
	}
	a := &q.away
	peer := a.of(process)
	switch {
	case peer == nil:
		first := q.shared.begin[process]
		a.peers = append(a.peers, &awayPeer{process: process, next: first})
		q.shared.others.Ask(process, first)
		return stall, ib.VendorNone
	case peer.refused:
		return nakAccess, ib.VendorPD
	case peer.way == nil, a.cur != nil && a.cur != peer, len(peer.sent) >= maxPassed:
		return stall, ib.VendorNone
	}
	q.resp.srq, a.to = n, peer
	return accept, ib.VendorNone
}

// pass passes on shared.packet, which stands for n, of a message for another process.
func (q *QP) pass(n uint32) (verdict, ib.VendorErr) {
	p := &q.shared.packet
	r, i, to := &q.resp, p.Info, q.away.to
	if !i.HasPayload || i.Operation == wire.OpAtomicWrite {
		return q.ask()
	}
	if r.owesAway() { // an error of it would come before the response
		return stall, ib.VendorNone
	}
	asks := p.AckReq || r.naked
	p.PSN = to.next
	p.AckReq = p.AckReq || i.Last || len(to.sent)%awayAckEvery == awayAckEvery-1
	p.MigReq, p.Selective, p.Overtakes, p.Unawaited = true, false, false, false
	switch to.way.Forward(p, n) {
	case NoRoom:
		return stall, ib.VendorNone
	case NoWay:
		if len(to.sent) > 0 {
			q.Blame(ib.VendorPeerGone)
			q.failPassed(to, wire.NAKRemoteOperational)
			return drop, ib.VendorNone
		}
		return nakOp, ib.VendorPeerGone
	}
	to.sent = append(to.sent, passed{to.next, r.place(), asks, q.away.from})
	q.away.from = nil
	to.next = to.next.Add(n)
	q.away.cur = to
	r.in = inSend
	if i.First {
		r.got = 0
	}
	if i.Operation == wire.OpRDMAWrite {
		r.in = inWrite
		if i.First {
			r.total = p.RETH.DMALen
		}
	}
	r.got += uint32(len(p.Payload))
	r.epsn = r.epsn.Add(n)
	if i.Last {
		r.in = inNone
		r.msn = r.msn.Add(1)
		q.Count[roce.RcvdMessages]++
	}
	return accept, ib.VendorNone
}

// stall keeps the request expected, which stands for n packets, until it can be carried out.
// Without memory for it the requester has to repeat it.
func (q *QP) stall(p *wire.Packet, n uint32) {
	q.giveBack(&q.away.from)
	q.keep(p, n)
	e := q.resp.kept.at(p.PSN)
	if q.away.stalled = e != nil; e != nil {
		e.answered = q.resp.answered
	}
	q.resp.naked = true // nothing is missing, or it was said
}

// resume carries out the request that stall kept, and those behind it.
func (q *QP) resume() {
	if !q.away.stalled {
		return
	}
	q.away.stalled, q.away.due = false, 0
	if e := q.resp.kept.at(q.resp.epsn); e != nil {
		q.performKept(q.resp.epsn, e.packet.Selective)
	}
}

// Passing reports whether requests wait for another process.
func (q *QP) Passing() bool { return q.passing() || q.away.asked.waits() || q.away.more.waits() }

// passing reports whether requests wait, or their acknowledgements.
func (q *QP) passing() bool { return q.away.cur != nil || q.away.stalled }

// Retry has a target try again what Forward had no room for.
func (q *QP) Retry() { q.resume() }

// Answered says that a process of Ask takes requests by a way. With none it refuses them.
func (q *QP) Answered(process int, way Forwarder) {
	if peer := q.away.of(process); peer != nil && peer.way == nil {
		peer.way, peer.refused = way, way == nil
		q.resume()
	}
}

// Lost says that a process which took requests has gone, or takes no more. Requests that it has not
// answered fail.
//
// Spec: IBTA vol. 1, 9.9.3 (remote operational error: the responder cannot complete the request).
func (q *QP) Lost(process int) {
	a := &q.away
	peer := a.of(process)
	if peer == nil {
		return
	}
	a.peers = slices.DeleteFunc(a.peers, func(p *awayPeer) bool { return p == peer })
	q.shared.begin[process] = peer.next
	if a.more.peer == peer {
		a.more = fetch{}
	}
	switch {
	case peer == a.cur:
		q.Blame(ib.VendorPeerGone)
		q.failPassed(peer, wire.NAKRemoteOperational)
	case peer == a.asked.peer:
		q.Blame(ib.VendorPeerGone)
		q.failAway(wire.NAKRemoteOperational)
	default:
		q.resume()
	}
}

// HandleAnswer takes a response of another process's target, which stands for n packets.
func (q *QP) HandleAnswer(now monotime.Time, process int, p *wire.Packet, n uint32) {
	q.now = now
	peer := q.away.of(process)
	if peer == nil || p.Info.Service != wire.ServiceXRC || p.PSN.Diff(peer.next) >= 0 {
		q.Count[roce.UnexpectedPacket]++
		return
	}
	if p.Opcode != wire.XRCAcknowledge {
		q.takeData(peer, p, n)
		return
	}
	s := p.AETH.Syndrome
	if s.Kind() == wire.KindACK {
		q.settlePassed(peer, p.PSN.Add(1))
		return
	}
	q.settlePassed(peer, p.PSN)
	if f := q.fetchOf(peer, p.PSN); f != nil && s.Kind() == wire.KindNAK {
		q.refuseFetch(f, s.NAK())
		return
	}
	if q.away.cur != peer || peer.sent[0].psn != p.PSN {
		q.Count[roce.UnexpectedPacket]++
		return
	}
	if s.Kind() == wire.KindRNRNAK {
		q.passAgain(peer)
	} else {
		q.failPassed(peer, s.NAK())
	}
}

// settlePassed acknowledges the packets that were passed on before end.
func (q *QP) settlePassed(peer *awayPeer, end ib.PSN) {
	n, ack := 0, false
	for n < len(peer.sent) && peer.sent[n].psn.Before(end) {
		ack = ack || peer.sent[n].ack
		q.giveBack(&peer.sent[n].kept)
		n++
	}
	if n == 0 {
		return
	}
	peer.sent = slices.Delete(peer.sent, 0, n)
	at := q.resp.place()
	if len(peer.sent) > 0 {
		at = peer.sent[0].before
	} else {
		q.away.cur = nil
	}
	if ack {
		q.resp.awaited = true
		q.oweAckOf(at.epsn.Prev(), at.msn)
	}
	q.resume()
	q.tellGap()
}

// tellGap tells the requester which requests are missing, once all before them are answered: it
// takes that for an acknowledgement of those.
func (q *QP) tellGap() {
	a, r := &q.away, &q.resp
	if !a.gap || q.passing() || q.State() == ib.QPErr {
		return
	}
	a.gap = false
	if r.kept.count == 0 {
		return
	}
	r.naked = true
	for _, e := range r.kept.slots {
		if e != nil {
			if e.packet.Selective {
				q.oweSack()
				return
			}
			break
		}
	}
	q.Count[roce.SentSeqNAK]++
	q.owe(response{kind: respAck, psn: r.epsn, syndrome: wire.NAKPSNSequence})
}

// passAgain tells the requester to repeat the oldest unanswered packet later. The other process
// drops those behind it.
func (q *QP) passAgain(peer *awayPeer) {
	r, first := &q.resp, peer.sent[0]
	q.giveBack(&peer.sent[0].kept)
	q.keepPassed(peer.sent[1:], first.before.epsn)
	r.goBack(&first.before)
	clear(peer.sent)
	peer.next, peer.sent = first.psn, peer.sent[:0]
	if f := &q.away.more; f.peer == peer && f.waits() && !f.first.Before(first.psn) {
		*f = fetch{} // it is dropped too
	}
	q.away.cur, q.away.stalled, q.away.due, q.away.gap = nil, false, 0, false
	r.naked = true
	q.Count[roce.SentRNRNAK]++
	q.owe(response{kind: respAck, psn: r.epsn, syndrome: wire.RNRNAK(q.Attr.MinRNRTimer)})
}

// keepPassed keeps the packets again that the requester need not repeat, of those passed on since
// first. The others are missing.
func (q *QP) keepPassed(sent []passed, first ib.PSN) {
	r := &q.resp
	k := &r.kept
	end := r.epsn // of the packets passed on
	later := k.count > 0
	last := end
	if later {
		last = k.end
	}
	var gaps []wire.Gap
	from := first // of the next gap
	if !k.grow(int(last.Diff(first)), q.Reorder) {
		k.discard(q.Reorder)
		q.givePassed(sent)
		return
	}
	for i := range sent {
		e := sent[i].kept
		if e == nil {
			continue
		}
		if e.packet.PSN != from {
			gaps = append(gaps, wire.Gap{First: from, End: e.packet.PSN})
		}
		from = e.packet.PSN.Add(e.packets)
		*k.slot(e.packet.PSN) = e
		k.count++
		k.bytes += e.bytes
		k.out -= e.bytes
	}
	switch {
	case k.count == 0:
		k.discard(q.Reorder)
	case !later:
		k.gaps, k.end = gaps, from
	default:
		rest := without(k.gaps, first, end)
		if from != end {
			gap := wire.Gap{First: from, End: end}
			if len(rest) > 0 && rest[0].First == end {
				gap.End, rest = rest[0].End, rest[1:]
			}
			gaps = append(gaps, gap)
		}
		k.gaps = append(gaps, rest...)
	}
}

// givePassed gives back the memory of requests that were passed on.
func (q *QP) givePassed(sent []passed) {
	for i := range sent {
		q.giveBack(&sent[i].kept)
	}
}

// failPassed ends the target with the NAK of the oldest unanswered packet.
func (q *QP) failPassed(peer *awayPeer, code wire.Syndrome) {
	q.resp.goBack(&peer.sent[0].before)
	q.failAway(code)
}

// failAway ends the target with another process's NAK of the request expected.
func (q *QP) failAway(code wire.Syndrome) {
	r := &q.resp
	event := ib.EventQPFatal
	switch code {
	case wire.NAKInvalidRequest:
		event = ib.EventQPReqErr
	case wire.NAKRemoteAccess:
		event = ib.EventQPAccessErr
	default:
		code = wire.NAKRemoteOperational
	}
	q.failResponder(r.epsn, code, event, len(r.out))
}

// repeatPassed answers a repeated SEND or WRITE. It reports false where that was answered before.
func (q *QP) repeatPassed(psn ib.PSN) bool {
	cur := q.away.cur
	if cur == nil {
		return false
	}
	oldest := &cur.sent[0].before
	if psn.Before(oldest.epsn) {
		q.resp.awaited = true
		q.oweAckOf(oldest.epsn.Prev(), oldest.msn)
	} else { // it is not answered yet
		cur.sent[len(cur.sent)-1].ack = true
	}
	return true
}

// leaveOthers forgets the other processes.
func (q *QP) leaveOthers() {
	if cur := q.away.cur; cur != nil {
		q.givePassed(cur.sent)
	}
	q.giveBack(&q.away.from)
	for _, p := range q.away.peers {
		q.shared.begin[p.process] = p.next
	}
	q.away = away{}
	if q.shared != nil {
		q.shared.others.LeaveAll()
	}
}
