// SPDX-License-Identifier: BSD-2-Clause

package timeline

import (
	"net/netip"
	"slices"

	"verbena/ib"
	"verbena/internal/trace"
	"verbena/internal/wire/pcap"
	"verbena/internal/wire/roce"
)

// ends are the addresses of a flow.
type ends struct{ src, dst netip.Addr }

// maxWaiting bounds the flows without a peer that a response is compared with.
const maxWaiting = 64

func serviceName(s roce.Service) string {
	switch s {
	case roce.ServiceUC:
		return protoUC
	case roce.ServiceUD:
		return protoUD
	case roce.ServiceXRC:
		return protoXRC
	}
	return protoRC
}

// roce takes a datagram to RoCEv2's port.
func (b *builder) roce(d *pcap.Datagram) {
	var p roce.Packet
	verdict, headers := b.parse(&p, d)
	right := !d.Truncated && verdict == roce.WellFormed && d.VerifyICRC()
	bad := !d.Truncated && !right
	if bad {
		if n := trace.CutRoCE(d); n > 0 {
			b.burst(d, n, b.roce)
			return
		}
	}
	b.identify(d, true)
	b.fields.roce(d, &p, verdict, headers, right, b.frame)
	key := flowKey{src: d.Src.Addr(), dst: d.Dst.Addr(), qpn: uint32(p.DestQP)}
	unknown := d.Truncated && (!headers && (p.Info.HasDETH || p.Info.HasAETH) ||
		p.DestQP == ib.QP1)
	if p.Info.HasDETH && verdict == roce.WellFormed && headers {
		key.srcQPN = uint32(p.DETH.SrcQP)
	}
	var f *flow
	var row uint32
	switch {
	case bad || unknown:
		f = b.flow(key, serviceName(p.Info.Service))
		if row = b.row(f, Bad, 0, d.FrameLen); row != None && bad {
			f.h.Bad++
		} else if row != None {
			b.t.Packets.Kind[row] = Sent
		}
	case p.Info.Service == roce.ServiceUD && p.DestQP == ib.QP1:
		f, row = b.management(d, &p)
	case p.Info.Service == roce.ServiceUD:
		f = b.flow(key, protoUD)
		pair(f, b.flows[flowKey{src: key.dst, dst: key.src, qpn: key.srcQPN, srcQPN: key.qpn}])
		if row = b.row(f, Sent, 0, d.FrameLen); row != None {
			b.unreliable(f, row, &p)
		}
	case p.Info.Operation == roce.OpCongestion:
		f = b.flow(key, protoRC)
		if row = b.row(f, CNP, 0, d.FrameLen); row != None && f.peer != nil {
			f.peer.real().h.CNPs++
			b.t.Packets.Number[row] = uint32(f.peer.space.next)
			b.t.Packets.Flags[row] |= OfB
		}
	case p.Info.Response:
		f, row = b.response(key, d, &p)
	default:
		f = b.flow(key, serviceName(p.Info.Service))
		if row = b.row(f, Sent, 0, d.FrameLen); row != None {
			b.requestPacket(f, row, &p)
		}
	}
	if row != None && marked(d) {
		b.t.Packets.Flags[row] |= Marked
		f.h.Marked++
	}
	b.done(row, f)
}

// parse takes a datagram apart. headers is false if the capture lacks some of its headers: those
// behind the BTH are zero then. Of a payload that it lacks the length is known, and the bytes are
// 0.
func (b *builder) parse(p *roce.Packet, d *pcap.Datagram) (verdict roce.Malformed, headers bool) {
	if !d.Truncated || len(d.Payload) < roce.BTHBytes {
		return p.Parse(d.Payload), !d.Truncated
	}
	n := len(d.Payload) + d.Missing
	b.whole = slices.Grow(b.whole[:0], n)[:n]
	clear(b.whole[copy(b.whole, d.Payload):])
	verdict = p.Parse(b.whole)
	if verdict == roce.TooShort || verdict == roce.BadLength {
		h, _, _ := roce.ParseBTH(d.Payload)
		p.BTH, p.Info = h, h.Row()
		return verdict, false
	}
	if len(d.Payload) >= p.Info.HeaderBytes {
		return verdict, true
	}
	*p = roce.Packet{BTH: p.BTH, Info: p.Info, Payload: p.Payload} // half a key is none
	return verdict, false
}

// rel returns a PSN counted from the first of a space.
func (s *space) rel(psn ib.PSN) int64 {
	if !s.synced && s.next == 0 {
		s.base = uint32(psn)
	}
	return s.next + int64(psn.Diff(ib.NewPSN(uint32(s.next)+s.base)))
}

func operationOf(o roce.Operation) Operation {
	switch o {
	case roce.OpSend:
		return OpSend
	case roce.OpRDMARead:
		return OpRead
	case roce.OpCompareSwap, roce.OpFetchAdd:
		return OpAtomic
	case roce.OpFlush:
		return OpFlush
	case roce.OpAtomicWrite:
		return OpAtomicWrite
	}
	return OpWrite
}

// unreliable takes a datagram of UD, or a packet of UC.
func (b *builder) unreliable(f *flow, row uint32, p *roce.Packet) {
	from := f.space.next
	if f.protocol == protoUC {
		from = f.space.rel(p.PSN)
	}
	n := uint32(len(p.Payload))
	b.t.Packets.Number[row] = uint32(max(from, 0))
	b.sendRequest(f, request{row: row, from: from, n: 1, payload: n, bytes: n,
		op: operationOf(p.Info.Operation), first: p.Info.First, last: p.Info.Last})
	if f.protocol == protoUD && f.cur != None {
		b.t.Ops[f.cur].psn = uint32(p.PSN)
	}
	f.space.ack(f.space.next, b.at) // nothing waits for an answer
	b.t.Packets.InFlight[row] = 0
	if f.cur != None && p.Info.Last {
		b.end(f, &b.t.Ops[f.cur], Done, "")
		f.space.pending = len(f.space.ops)
	}
}

// requestPacket takes a request of RC, XRC or UC.
func (b *builder) requestPacket(f *flow, row uint32, p *roce.Packet) {
	if f.protocol == protoUC {
		b.unreliable(f, row, p)
		return
	}
	if f.peer == nil && !f.space.synced {
		at := ends{f.key.src, f.key.dst}
		if list := b.waiting[at]; len(list) < maxWaiting {
			b.waiting[at] = append(list, f)
		} else {
			b.waiting[at] = append(slices.Delete(list, 0, 1), f)
		}
	}
	n := uint32(len(p.Payload))
	r := request{row: row, from: f.space.rel(p.PSN), n: 1, payload: n, bytes: n,
		op: operationOf(p.Info.Operation), first: p.Info.First, last: p.Info.Last}
	if p.Info.HasPayload && !p.Info.Last {
		f.mtu = max(f.mtu, n)
	}
	loose := false
	if r.op == OpRead {
		r.bytes = p.RETH.DMALen
		switch mtu := b.mtuOf(f); {
		case mtu > 0:
			r.n = max(int64(r.bytes+mtu-1)/int64(mtu), 1)
		case r.bytes > 256:
			loose = true
		}
	}
	b.t.Packets.Number[row] = uint32(max(r.from, 0))
	b.sendRequest(f, r)
	f.space.loose = loose
	if n := b.t.Packets.Op[row]; n != None && p.Info.First {
		switch o := &b.t.Ops[n]; {
		case p.Info.HasRETH:
			o.va, o.rkey, o.rkeyBytes = p.RETH.VA, uint32(p.RETH.RKey), p.RETH.DMALen
		case p.Info.HasAtomicETH:
			o.va, o.rkey, o.rkeyBytes = p.AtomicETH.VA, uint32(p.AtomicETH.RKey), 8
		}
	}
}

func (b *builder) mtuOf(f *flow) uint32 {
	if f.mtu == 0 && f.peer != nil {
		return f.peer.mtu
	}
	return f.mtu
}

// response takes an acknowledgement or a packet of a READ's response: its number counts among the
// requests of the peer.
func (b *builder) response(key flowKey, d *pcap.Datagram, p *roce.Packet) (*flow, uint32) {
	service := p.Info.Service
	if service == roce.ServiceOwn {
		service = roce.ServiceRC
	}
	g := b.flow(key, serviceName(service))
	row := b.row(g, Ack, 0, d.FrameLen)
	if row == None {
		return g, row
	}
	if g.peer == nil {
		b.findPeer(g, p.PSN)
	}
	if p.Info.HasPayload && !p.Info.Last && p.Info.Operation == roce.OpReadResponse {
		g.mtu = max(g.mtu, uint32(len(p.Payload)))
	}
	f := g.peer
	if f == nil {
		return g, row
	}
	n := f.space.rel(p.PSN)
	b.t.Packets.Number[row] = uint32(max(n, 0))
	b.t.Packets.Flags[row] |= OfB // of the other end: finish turns it for B
	switch p.Info.Operation {
	case roce.OpReadResponse, roce.OpAtomicAcknowledge:
		b.answer(g, f, row, n, p)
	case roce.OpSelectiveAck:
		b.t.Packets.Kind[row] = SelectiveAck
		f.space.asked = true
		b.acknowledge(f, n, row)
	default:
		b.ackPacket(f, row, n, p.AETH.Syndrome)
	}
	return g, row
}

func (b *builder) ackPacket(f *flow, row uint32, n int64, s roce.Syndrome) {
	name := s.String()
	switch {
	case s.Kind() == roce.KindACK:
		b.acknowledge(f, n+1, row)
		return
	case s.Kind() == roce.KindRNRNAK:
		b.t.Packets.Kind[row] = RNR
	case s.NAK() == roce.NAKPSNSequence:
		b.t.Packets.Kind[row] = NAK
	default:
		b.t.Packets.Kind[row] = Refusal
	}
	b.acknowledge(f, n, row)
	b.nak(f, n, name, b.t.Packets.Kind[row], row)
}

// answer takes a packet with the result of a READ, an atomic, a FLUSH or an ATOMIC WRITE.
func (b *builder) answer(g, f *flow, row uint32, n int64, p *roce.Packet) {
	pk := &b.t.Packets
	pk.Kind[row] = Response
	i := f.space.op(b.t.Ops, n)
	if i < 0 && f.cur != None && b.t.Ops[f.cur].Operation == OpRead && n >= b.t.Ops[f.cur].first {
		i = len(f.space.ops) - 1 // a READ of unknown length
	}
	b.acknowledge(f, n, row)
	if i < 0 {
		return
	}
	b.setOp(row, f.space.ops[i])
	o := &b.t.Ops[f.space.ops[i]]
	o.Packets++
	o.end = max(o.end, n+1)
	f.space.next = max(f.space.next, n+1)
	if n < o.respNext {
		pk.Kind[row] = Repeated
		g.h.Repeated++
		o.Repeated++
		return
	}
	o.respNext = n + 1
	pk.Payload[row] = uint32(len(p.Payload))
	g.h.Bytes += uint64(len(p.Payload))
	if !p.Info.Last {
		return
	}
	b.end(f, o, Done, "")
	b.acknowledge(f, n+1, row)
	b.setOp(row, f.space.ops[i])
}

// findPeer finds the flow of requests that a response with a PSN answers.
func (b *builder) findPeer(g *flow, psn ib.PSN) {
	at := ends{g.key.dst, g.key.src}
	list := b.waiting[at]
	for i := len(list) - 1; i >= 0; i-- {
		f := list[i]
		if f == g {
			continue
		}
		if f.peer != nil {
			list = slices.Delete(list, i, i+1)
			continue
		}
		n := f.space.rel(psn)
		if f.space.synced && n >= f.space.acked && n <= f.space.next && f.outstanding(n) {
			pair(f, g)
			list = slices.Delete(list, i, i+1)
			break
		}
	}
	b.waiting[at] = list
}

// outstanding reports whether a packet with number n has been sent, and not acknowledged.
func (f *flow) outstanding(n int64) bool {
	s := &f.space
	i := s.at(n+1) - 1
	return i >= 0 && (n < s.flight[i].to || n == s.flight[i].to && s.loose)
}
