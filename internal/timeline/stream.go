// SPDX-License-Identifier: BSD-2-Clause

package timeline

import (
	"net/netip"

	"verbena/internal/trace"
	"verbena/internal/wire/iwarp"
	"verbena/internal/wire/pcap"
)

// segment takes a TCP segment. Connections count as iWARP's from their SYN on if an MPA Request
// follows; others are dropped when their connection shows to be another's.
func (b *builder) segment(s *pcap.Segment) {
	key := streamKey(s.Src, s.Dst)
	known := b.streams.Has(s)
	var items []trace.Item
	b.streams.Segment(b.frame, s, func(i *trace.Item) {
		item := *i
		item.ULPDU = append([]byte(nil), i.ULPDU...)
		items = append(items, item)
	})
	if !known && !b.streams.Has(s) {
		return
	}
	f := b.flow(key, protoIWARP)
	if f != nil && f.peer == nil {
		pair(f, b.flow(streamKey(s.Dst, s.Src), protoIWARP))
		f.begins = true
	}
	if f == nil || f.peer == nil {
		b.t.LeftOut++
		return
	}
	if b.twice.again(f, s, b.at) {
		return
	}
	b.fields.segment(s, b.frame)
	row := b.row(f, Ack, 0, s.FrameLen)
	if row == None {
		return
	}
	p := &b.t.Packets
	switch {
	case s.RST:
		p.Kind[row] = Reset
	case s.SYN || s.FIN && len(s.Payload) == 0:
		p.Kind[row] = SetUp
	}
	if s.HasAck {
		b.streamAck(f.peer, s, row)
	}
	if n := len(s.Payload); n > 0 {
		from := f.offset(s.Seq)
		p.Number[row] = uint32(max(from, 0))
		p.Flags[row] &^= OfB
		k, earlier := f.space.send(from, int64(n), b.at, row, uint32(n))
		p.Kind[row] = k
		p.InFlight[row] = clip(int64(f.space.bytes))
		if earlier != None {
			p.Flags[earlier] |= GivenUp
		}
		b.countData(f, row, k, n, earlier)
	}
	for i := range items {
		b.item(f)(&items[i])
	}
	b.done(row, f)
}

// streamKey returns the key of a direction of a TCP stream or TRP association.
func streamKey(src, dst netip.AddrPort) flowKey {
	return flowKey{src: src.Addr(), dst: dst.Addr(), srcPort: src.Port(), dstPort: dst.Port()}
}

// countData counts n bytes of a kind in a row. A repeat belongs to the operation of the row that it
// repeats, or else to the current one while that has no end.
func (b *builder) countData(f *flow, row uint32, k Kind, n int, earlier uint32) {
	switch k {
	case Repeated:
		f.h.Repeated++
		if !f.space.lastRep {
			f.h.Resent++
			if !f.space.asked {
				f.h.TimedOut++
			}
		}
		f.space.asked = false
		op := f.cur
		if earlier != None && b.t.Packets.Op[earlier] != None {
			op = b.t.Packets.Op[earlier]
		} else if op != None && b.t.Ops[op].Status != Open {
			op = None
		}
		if op != None {
			b.t.Ops[op].Repeated++
			b.t.Ops[op].Packets++
			b.setOp(row, op)
		}
	case Late:
		f.h.Late++
	}
	f.space.lastRep = k == Repeated
	if k != Repeated {
		b.t.Packets.Payload[row] = uint32(n)
		f.h.Bytes += uint64(n)
	}
}

// offset returns a sequence number counted from the first of the stream.
func (f *flow) offset(seq uint32) int64 {
	s := &f.space
	if !s.synced && s.next == 0 {
		s.base = seq
	}
	return s.next + int64(int32(seq-uint32(s.next)-s.base))
}

func (b *builder) streamAck(g *flow, s *pcap.Segment, row uint32) {
	if !g.space.synced {
		return
	}
	n := g.offset(s.Ack)
	if len(s.Payload) == 0 {
		b.t.Packets.Number[row] = uint32(max(n, 0))
		b.t.Packets.Flags[row] |= OfB // of the other end
		// Source: RFC 5681, section 2, of a duplicate acknowledgement.
		g.space.asked = n == g.space.acked && len(g.space.flight) > 0 && !s.SYN && !s.FIN
	}
	b.acknowledge(g, n, row)
}

// item returns the function that takes the frames of MPA in the segments of a flow.
func (b *builder) item(f *flow) func(*trace.Item) {
	return func(i *trace.Item) {
		g := f
		if g == nil {
			g = b.flows[streamKey(i.Src, i.Dst)]
		}
		if g == nil || !g.seen {
			return
		}
		row := g.last
		if f != nil {
			b.fields.item(i)
		}
		switch {
		case i.SetUp != nil:
			b.t.Packets.Kind[row] = SetUp
			if i.SetUp.Reject {
				b.t.Packets.Kind[row] = Reset
				g.note = "rejected by MPA"
			}
			return
		case i.BadCRC || i.BadMarker:
			b.t.Packets.Kind[row] = Bad
			g.h.Bad++
			return
		}
		b.ddp(g, row, i.ULPDU, i.Length)
	}
}

// ddp takes a DDP segment that has come to its end in a row.
func (b *builder) ddp(f *flow, row uint32, ulpdu []byte, length int) {
	h, payload, ok := iwarp.ParseHeader(ulpdu)
	if !ok || f.peer == nil {
		return
	}
	n := uint32(max(length-h.HeaderBytes(), 0))
	switch h.Opcode {
	case iwarp.ReadResponse, iwarp.AtomicResponse:
		b.ddpAnswer(f.peer, row, h, n)
	case iwarp.Terminate:
		b.t.Packets.Kind[row] = Refusal
		reason := "Terminate"
		if m, _, ok := iwarp.ParseTermMsg(payload); ok {
			reason = m.TermError.String()
		}
		b.terminate(f.peer, row, reason)
	default:
		b.ddpRequest(f, row, h, payload, n)
	}
}

func (b *builder) ddpRequest(f *flow, row uint32, h iwarp.Header, payload []byte, n uint32) {
	op, bytes := OpSend, uint64(n)
	switch h.Opcode {
	case iwarp.RDMAWrite:
		op = OpWrite
	case iwarp.ReadRequest:
		op, bytes = OpRead, 0
		if r, _, ok := iwarp.ParseReadReq(payload); ok {
			bytes = uint64(r.Size)
		}
	case iwarp.AtomicRequest:
		op, bytes = OpAtomic, 8
	}
	if f.cur == None || b.t.Ops[f.cur].complete || b.t.Ops[f.cur].Operation != op {
		if b.beginOp(f, request{row: row, from: f.space.next, op: op},
			len(f.space.ops)) < 0 {
			return
		}
	}
	o := &b.t.Ops[f.cur]
	if b.t.Packets.Op[row] != f.cur {
		o.Packets++
	}
	b.setOp(row, f.cur)
	o.Bytes += bytes
	o.end = f.space.next
	o.End = max(o.End, b.at)
	o.complete = h.Last
}

// ddpAnswer takes a response to the oldest READ or atomic of f that is not answered.
func (b *builder) ddpAnswer(f *flow, row uint32, h iwarp.Header, n uint32) {
	if b.t.Packets.Kind[row] == Sent {
		b.t.Packets.Kind[row] = Response
	}
	want := OpRead
	if h.Opcode == iwarp.AtomicResponse {
		want = OpAtomic
	}
	for i := f.answers; i < len(f.space.ops); i++ {
		o := &b.t.Ops[f.space.ops[i]]
		if !o.Operation.answered() || o.Status != Open {
			if i == f.answers {
				f.answers++
			}
			continue
		}
		if o.Operation != want {
			return
		}
		o.Packets++
		b.setOp(row, f.space.ops[i])
		if h.Last {
			b.end(f, o, Done, "")
			f.answers = i + 1
		}
		return
	}
}

// terminate ends the last operation of f that is open. Only the first Terminate of a stream does:
// it ends the stream.
func (b *builder) terminate(f *flow, row uint32, reason string) {
	if f.h.NAKs != nil {
		f.h.NAKs[reason]++
		return
	}
	f.h.NAKs = map[string]uint64{reason: 1}
	for i := len(f.space.ops) - 1; i >= 0; i-- {
		if o := &b.t.Ops[f.space.ops[i]]; o.Status == Open {
			b.setOp(row, f.space.ops[i])
			b.end(f, o, Failed, reason)
			return
		}
	}
}

// association is a client of TRP and the address of its server, which answers from another port.
type association struct {
	client netip.AddrPort
	server netip.Addr
}
