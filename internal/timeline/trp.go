// SPDX-License-Identifier: BSD-2-Clause

package timeline

import (
	"bytes"
	"cmp"
	"net/netip"
	"slices"

	"verbena/internal/trace"
	"verbena/internal/wire/pcap"
	"verbena/internal/wire/trp"
)

// association takes a datagram of TRP.
func (b *builder) association(d *pcap.Datagram) {
	var p trp.Packet
	verdict := p.Parse(d.Payload)
	if verdict == trp.WellFormed && !d.Truncated {
		if n := trace.CutTRP(d, &p); n > 0 {
			b.burst(d, n, b.association)
			return
		}
	}
	b.identify(d, false)
	b.fields.trp(d, &p, verdict, b.frame)
	f := b.associated(d)
	if f == nil || f.peer == nil {
		b.t.LeftOut++
		return
	}
	kind := Ack
	switch {
	case verdict != trp.WellFormed && d.Truncated:
	case verdict != trp.WellFormed:
		kind = Bad
		f.h.Bad++
	case p.Opcode == trp.Reject:
		kind, f.note = Reset, "rejected"
	case p.Opcode == trp.SACK:
		kind = SelectiveAck
	case p.Opcode != trp.Data:
		kind = SetUp
		f.asks = f.asks || p.Opcode == trp.Request
	}
	row := b.row(f, kind, 0, d.FrameLen)
	if row == None {
		return
	}
	if verdict == trp.WellFormed {
		b.trpPacket(f, row, &p, d.Missing)
	}
	if marked(d) {
		b.t.Packets.Flags[row] |= Marked
		f.h.Marked++
	}
	b.done(row, f)
}

// trpPacket takes a packet. The capture lacks some bytes at its end.
func (b *builder) trpPacket(f *flow, row uint32, p *trp.Packet, missing int) {
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
		if len(p.Payload)+missing == 0 {
			b.t.Packets.Number[row] = uint32(max(n, 0))
			b.t.Packets.Flags[row] |= OfB
		}
		b.acknowledge(g, n, row)
	}
	n := len(p.Payload) + missing
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
		b.inOrder(f, row, from, p.Payload, n)
	}
}

// heldSegment is a segment that came before its turn.
type heldSegment struct {
	number int64
	row    uint32
	ulpdu  []byte // its beginning
	length int
}

const (
	// maxHeld bounds the segments of a flow that wait for earlier ones. Beyond it the earlier ones
	// count as missing.
	maxHeld = 1 << 10
	// maxHeldBytes is more than the headers of any segment.
	maxHeldBytes = 128
)

// inOrder gives DDP the segments of TRP in the order of their numbers, at the times when they came.
// length is that of the segment. The capture may lack its end.
func (b *builder) inOrder(f *flow, row uint32, number int64, ulpdu []byte, length int) {
	switch {
	case number < f.turn:
		return // its gap was given up
	case number > f.turn:
		head := bytes.Clone(ulpdu[:min(len(ulpdu), maxHeldBytes)])
		i, _ := slices.BinarySearchFunc(f.held, number, func(h heldSegment, n int64) int {
			return cmp.Compare(h.number, n)
		})
		f.held = slices.Insert(f.held, i, heldSegment{number, row, head, length})
		if len(f.held) < maxHeld {
			return
		}
		f.turn, f.hole = f.held[0].number, true
	default:
		f.turn++
		b.ddp(f, row, f.turn, ulpdu, length)
	}
	b.release(f)
}

// release takes the held segments whose turn it is.
func (b *builder) release(f *flow) {
	now := b.at
	n := 0
	for ; n < len(f.held) && f.held[n].number <= f.turn; n++ {
		h := &f.held[n]
		if h.number < f.turn {
			continue
		}
		f.turn++
		b.at = b.t.Packets.Time[h.row]
		b.ddp(f, h.row, f.turn, h.ulpdu, h.length)
	}
	f.held = slices.Delete(f.held, 0, n)
	b.at = now
}

// releaseAll takes the held segments whose turn never came, at the end of a capture.
func (b *builder) releaseAll() {
	for _, f := range b.all {
		for len(f.held) > 0 {
			f.turn, f.hole = f.held[0].number, true
			b.release(f)
		}
	}
}

// association is a client of TRP and the address of its server, which answers from another port.
type association struct {
	client netip.AddrPort
	server netip.Addr
}

// associated returns the flow of a datagram, whose connection its client's address and port and its
// server's address name.
func (b *builder) associated(d *pcap.Datagram) *flow {
	from, to := association{d.Src, d.Dst.Addr()}, association{d.Dst, d.Src.Addr()}
	client, ok := b.clients[from]
	if !ok {
		// A Request to a client is its server's challenge.
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
