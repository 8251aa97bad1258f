// SPDX-License-Identifier: BSD-2-Clause

package rc

import (
	"verbena/ib"
	"verbena/internal/qp"
	"verbena/internal/queue"
	wire "verbena/internal/wire/roce"
)

// A queue pair whose shared receive queue matches tags looks into the messages that arrive: each
// begins with a TMH. The receive of a tag gets the data behind the headers, one of the shared queue
// the whole message.
//
//	EAGER       match → data into the tagged receive      else → shared queue, unexpected
//	RENDEZVOUS  match → READ of the data, then SEND FIN   else → shared queue, unexpected
//	FIN, NO_TAG shared queue
//
// With ReadsTags the send queue is the machine's own. A rendezvous that finds it full is answered
// by an RNR NAK, so that a peer holds no more memory here than that queue has. Without, the tagged
// receive gets the headers, and the application reads the data.
//
// Source: rdma-core, Documentation/tag_matching.md.

// rendezvousWQEs is the number of work requests of a rendezvous: READ and FIN.
const rendezvousWQEs = 2

// MaxRendezvous bounds the rendezvous that a queue pair has accepted and not finished. It carries
// them out one by one: a FIN waits for its READ, and the next READ for the FIN.
const MaxRendezvous = 16

// NewTagSendQueue returns the send queue of a queue pair that matches tags.
func NewTagSendQueue(l *queue.TagList) *queue.SendQueue {
	return queue.NewSendQueue(rendezvousWQEs*MaxRendezvous, l.MaxSGE(), ib.TMHBytes)
}

// TagCompleter turns completions of the send queue of NewTagSendQueue into those of the tagged
// receives that the READs fill. FINs make none: one that fails ends the queue pair.
type TagCompleter struct{ To qp.Completer }

// Push implements qp.Completer.
func (c TagCompleter) Push(wc *ib.WC, solicited bool) bool {
	if wc.Opcode != ib.WCRDMARead {
		return true
	}
	wc.Opcode, wc.Flags = ib.WCTMRecv, ib.WCTMDataValid
	return c.To.Push(wc, true)
}

// tagState is the part of a message's state that only tag matching has.
type tagState struct {
	op      ib.WCOpcode // of the completion
	matched bool
	counted bool // as unexpected, and not completed
}

// executeTagged is executeSend with tag matching.
func (q *QP) executeTagged(p *wire.Packet) (verdict, ib.VendorErr) {
	r, i, data := &q.resp, p.Info, p.Payload
	var info ib.TMInfo
	if i.First {
		h, ok := parseTag(p)
		if !ok {
			return nakInvalid, ib.VendorLength
		}
		if v := q.takeTagged(h); v != accept {
			return v, ib.VendorRNR
		}
		r.got = 0
		info = ib.TMInfo{Tag: h.Tag, Priv: h.AppCtx}
		if r.tag.matched && h.Op == ib.TMRendezvous {
			return q.rendezvous(p, h, info)
		}
		if r.tag.matched {
			data = data[ib.TMHBytes:]
		}
	}
	n := uint32(len(data))
	if uint64(r.got)+uint64(n) > uint64(q.Recv.Length) {
		return q.failRecv(nakInvalid, ib.WCLocLenErr, ib.VendorLength)
	}
	if s, v := q.ScatterRecv(int(r.got), data); s != ib.WCSuccess {
		return q.failRecv(nakOp, s, v)
	}
	if v := q.invalidate(p); v != ib.VendorNone {
		return q.failRecv(nakAccess, ib.WCLocAccessErr, v)
	}
	r.got += n
	r.in = inSend
	q.acceptPacket(p)
	switch {
	case i.Last:
		q.completeTagged(p, info)
	case i.First && r.tag.matched: // the match is reported at once, the data later
		wc := q.WC()
		*wc = ib.WC{WRID: q.Recv.WRID, QPN: q.QPN, Opcode: ib.WCTMRecv, Flags: ib.WCTMMatch}
		wc.SetTMInfo(info)
		q.RecvCQ.Push(wc, p.Solicited)
	}
	return accept, ib.VendorNone
}

// parseTag reads the header of a message, and checks that what its operation needs is there.
func parseTag(p *wire.Packet) (h ib.TMH, ok bool) {
	if len(p.Payload) == 0 {
		return ib.TMH{}, true // as without a tag
	}
	h.Op = ib.TMOp(p.Payload[0])
	if h.Op == ib.TMNoTag {
		return ib.TMH{}, true
	}
	h, rest, ok := ib.ParseTMH(p.Payload)
	switch {
	case !ok || h.Op > ib.TMEager:
		return h, false
	case h.Op == ib.TMRendezvous:
		_, _, ok = ib.ParseRVH(rest)
		return h, ok && p.Info.Last && len(p.Payload) <= ib.MaxTMRendezvous
	}
	return h, true
}

// takeTagged takes the receive for a message.
func (q *QP) takeTagged(h ib.TMH) verdict {
	t := &q.resp.tag
	if h.Op == ib.TMNoTag || h.Op == ib.TMFin {
		*t = tagState{op: ib.WCTMNoTag}
		if !q.TakeRecv() {
			return nakRNR
		}
		return accept
	}
	*t = tagState{op: ib.WCTMRecv}
	if h.Op == ib.TMRendezvous && q.ReadsTags && q.SQ.Cap()-q.SQ.Len() < rendezvousWQEs {
		return nakRNR
	}
	t.matched, q.RecvHeld = q.Tags.Take(&q.Recv, h.Tag)
	if !q.RecvHeld {
		return nakRNR
	}
	t.counted = !t.matched
	return accept
}

// loseTagged has a message that ends before its completion not count as unexpected.
func (q *QP) loseTagged() {
	if t := &q.resp.tag; t.counted {
		t.counted = false
		q.Tags.Uncount()
	}
}

// invalidate carries out the invalidation that a SEND with invalidate asks for.
func (q *QP) invalidate(p *wire.Packet) ib.VendorErr {
	if !p.Info.HasIETH {
		return ib.VendorNone
	}
	return q.Mem.Invalidate(q.PD, q.QPN, p.IETH.RKey, true)
}

// completeTagged reports the receive that a message took. info is that of a message of one packet.
func (q *QP) completeTagged(p *wire.Packet, info ib.TMInfo) {
	q.resp.delivered = true
	t := &q.resp.tag
	wc := ib.WC{Opcode: t.op, ByteLen: q.resp.got}
	switch {
	case t.matched && p.Info.First:
		wc.Flags = ib.WCTMMatch | ib.WCTMDataValid
		wc.SetTMInfo(info)
	case t.matched:
		wc.Flags = ib.WCTMDataValid
	case t.op == ib.WCTMRecv && q.Tags.MustSync():
		wc.Flags = ib.WCTMSyncReq
	}
	q.finishTagged(p, &wc)
}

// finishTagged completes the receive held, with the packet's immediate data or invalidated key.
func (q *QP) finishTagged(p *wire.Packet, wc *ib.WC) {
	if p.Info.HasImm {
		wc.Flags |= ib.WCWithImm
		wc.ImmData = p.ImmDt.Data
	}
	if p.Info.HasIETH {
		wc.Flags |= ib.WCWithInv
		wc.InvalidatedRKey = p.IETH.RKey
	}
	q.resp.tag.counted = false
	q.CompleteRecv(wc, p.Solicited)
	q.req.heard()
}

// rendezvous begins to READ the data of a message that matched. Where the receive is too short, or
// the machine may not READ, the application gets the headers in it, and reads the data by itself.
func (q *QP) rendezvous(p *wire.Packet, h ib.TMH, info ib.TMInfo) (verdict, ib.VendorErr) {
	v, _, _ := ib.ParseRVH(p.Payload[ib.TMHBytes:])
	wc := ib.WC{Opcode: ib.WCTMRecv, ByteLen: v.Length, Flags: ib.WCTMMatch}
	wc.SetTMInfo(info)
	if d := q.invalidate(p); d != ib.VendorNone {
		return q.failRecv(nakAccess, ib.WCLocAccessErr, d)
	}
	if v.Length > q.Recv.Length || !q.ReadsTags {
		headers := p.Payload[:min(ib.TMHBytes+ib.RVHBytes, q.Recv.Length)]
		if s, d := q.ScatterRecv(0, headers); s != ib.WCSuccess {
			return q.failRecv(nakOp, s, d)
		}
		wc.Status, wc.ByteLen = ib.WCTMRndvIncomplete, uint32(len(headers))
		wc.Flags |= ib.WCTMDataValid
	} else {
		q.postRendezvous(h, v)
	}
	q.acceptPacket(p)
	q.resp.delivered = true
	q.finishTagged(p, &wc)
	return accept, ib.VendorNone
}

// postRendezvous puts READ and FIN on the send queue, in which takeTagged has seen the room.
func (q *QP) postRendezvous(h ib.TMH, v ib.RVH) {
	w, _ := q.SQ.Reserve()
	w.WRID, w.Opcode, w.Flags = q.Recv.WRID, ib.WRRDMARead, ib.SendSignaled
	w.RemoteAddr, w.RKey, w.Length = v.VA, v.RKey, v.Length
	left := v.Length
	for _, g := range q.Recv.SGE {
		if left == 0 {
			break
		}
		g.Length = min(g.Length, left)
		left -= g.Length
		w.SGE = append(w.SGE, g)
	}
	q.SQ.Commit()
	w, _ = q.SQ.Reserve()
	h.Op = ib.TMFin
	w.Opcode, w.Flags = ib.WRSend, ib.SendFence|ib.SendInline
	w.Inline = h.Append(w.Inline)
	w.Length = uint32(len(w.Inline))
	q.SQ.Commit()
}
