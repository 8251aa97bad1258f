// SPDX-License-Identifier: BSD-2-Clause

package timeline

import (
	"net/netip"
	"slices"

	"verbena/internal/trace"
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
		f.begins, f.asks = true, true
	}
	if f == nil || f.peer == nil {
		b.t.LeftOut++
		return
	}
	if b.twice.again(f, s, b.at) {
		return
	}
	b.identifySegment(s)
	b.fields.segment(s, b.frame)
	row := b.row(f, Ack, 0, s.FrameLen)
	if row == None {
		return
	}
	p := &b.t.Packets
	switch {
	case s.RST:
		p.Kind[row] = Reset
	case s.SYN || s.FIN && len(s.Payload)+s.Missing == 0:
		p.Kind[row] = SetUp
	}
	if s.HasAck {
		b.streamAck(f.peer, s, row)
	}
	if n := len(s.Payload) + s.Missing; n > 0 {
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
	if p.Payload[row] > 0 && len(f.partial) < maxPartial {
		f.partial = append(f.partial, row)
	}
	for i := range items {
		b.item(f)(&items[i])
		f.partial = f.partial[:0]
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
		if slices.Contains(f.partial, earlier) {
			op = None
			if len(f.partial) < maxPartial {
				f.partial = append(f.partial, row)
			}
		} else if earlier != None && b.t.Packets.Op[earlier] != None {
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
	if len(s.Payload)+s.Missing == 0 {
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
			if r := i.SetUp; r.Reply && r.IsEnhanced && r.Enhanced.PeerToPeer && g.peer != nil {
				g.peer.ready = readyDue
			}
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
		g.hole = g.hole || i.NotCaptured
		b.ddp(g, row, g.space.next, i.ULPDU, i.Length)
	}
}
