// SPDX-License-Identifier: BSD-2-Clause

package timeline

import (
	"verbena/internal/wire/pcap"
	"verbena/internal/wire/trp"
)

// association takes a datagram of TRP.
func (b *builder) association(d *pcap.Datagram) {
	var p trp.Packet
	verdict := p.Parse(d.Payload)
	if verdict == trp.WellFormed && p.Opcode == trp.Data && !d.Truncated {
		if n := cutTRP(d, &p); n > 0 {
			b.burst(d, n, b.association)
			return
		}
	}
	b.fields.trp(d, &p, verdict, b.frame)
	f := b.associated(d, verdict == trp.WellFormed && p.Opcode == trp.Request)
	if f == nil || f.peer == nil {
		b.t.LeftOut++
		return
	}
	kind := Ack
	switch {
	case verdict != trp.WellFormed:
		kind = Bad
		f.h.Bad++
	case p.Opcode == trp.Reject:
		kind, f.note = Reset, "rejected"
	case p.Opcode == trp.SACK:
		kind = SelectiveAck
	case p.Opcode != trp.Data:
		kind = SetUp
	}
	row := b.row(f, kind, 0, d.FrameLen)
	if row == None {
		return
	}
	if verdict == trp.WellFormed {
		b.trpPacket(f, row, &p)
	}
	if marked(d) {
		b.t.Packets.Flags[row] |= Marked
		f.h.Marked++
	}
	b.done(row, f)
}

func (b *builder) trpPacket(f *flow, row uint32, p *trp.Packet) {
	g := f.peer
	switch {
	case p.Opcode == trp.SACK:
		b.t.Packets.Number[row] = uint32(max(g.offset(uint32(p.PSN)), 0))
		b.t.Packets.Flags[row] |= OfB // of the other end
		g.space.asked = true
		return
	case p.Opcode != trp.Data:
		return
	}
	if g.space.synced {
		n := g.offset(uint32(p.AckPSN))
		if len(p.Payload) == 0 {
			b.t.Packets.Number[row] = uint32(max(n, 0))
			b.t.Packets.Flags[row] |= OfB
		}
		b.acknowledge(g, n, row)
	}
	n := len(p.Payload)
	if n == 0 {
		return
	}
	from := f.offset(uint32(p.PSN))
	b.t.Packets.Number[row] = uint32(max(from, 0))
	k, earlier := f.space.send(from, 1, b.at, row, uint32(n))
	b.t.Packets.Kind[row] = k
	b.t.Packets.InFlight[row] = clip(int64(f.space.bytes))
	if earlier != None {
		b.t.Packets.Flags[earlier] |= GivenUp
	}
	b.countData(f, row, k, n, earlier)
	if k != Repeated {
		b.ddp(f, row, p.Payload, n)
	}
}

// associated returns the flow of a datagram, whose connection its client's address and port and its
// server's address name.
func (b *builder) associated(d *pcap.Datagram, asks bool) *flow {
	from, to := association{d.Src, d.Dst.Addr()}, association{d.Dst, d.Src.Addr()}
	client, ok := b.clients[from]
	if !ok && !asks {
		if client, ok = b.clients[to]; ok {
			return b.flow(client, protoTRP).peer
		}
	}
	if ok {
		return b.flow(client, protoTRP)
	}
	if len(b.clients) >= maxFlows {
		return nil
	}
	client = streamKey(d.Src, d.Dst)
	server := streamKey(d.Dst, d.Src)
	f, g := b.flow(client, protoTRP), b.flow(server, protoTRP)
	pair(f, g)
	if f != nil && g != nil {
		b.clients[from] = client
		f.begins = true
	}
	return f
}
