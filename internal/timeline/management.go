// SPDX-License-Identifier: BSD-2-Clause

package timeline

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"verbena/ib"
	"verbena/internal/wire/cm"
	"verbena/internal/wire/pcap"
	"verbena/internal/wire/roce"
)

// greeting names one side of a connection being set up: an end, and its communication ID.
type greeting struct {
	addr netip.Addr
	id   uint32
}

// qp1 is the number of the queue pair of connection managers.
const qp1 = uint32(ib.QP1)

// management takes a datagram to QP1. Those of one connection belong to the flows of its queue
// pairs.
func (b *builder) management(d *pcap.Datagram, p *roce.Packet) (*flow, uint32) {
	from, to := d.Src.Addr(), d.Dst.Addr()
	h, data, ok := cm.ParseHeader(p.Payload)
	if !ok || h.Class != cm.Class || !h.Attribute.Valid() || len(data) < cm.DataSize {
		f := b.flow(flowKey{src: from, dst: to, qpn: qp1, srcQPN: uint32(p.DETH.SrcQP)}, protoCM)
		pair(f, b.flows[flowKey{src: to, dst: from, qpn: uint32(p.DETH.SrcQP), srcQPN: qp1}])
		return f, b.row(f, SetUp, 0, d.FrameLen)
	}
	b.fields.cm(h.Attribute, data)
	local, remote := binary.BigEndian.Uint32(data), binary.BigEndian.Uint32(data[4:])
	f := b.greets[greeting{from, local}].other()
	if h.Attribute == cm.AttrREQ && f != nil && !f.begins {
		f = nil // of another connection, whose server has chosen this ID
	}
	if g := b.greets[greeting{to, remote}]; f == nil && g != nil && remote != 0 &&
		h.Attribute != cm.AttrREQ && h.Attribute != cm.AttrSIDRREQ {
		f = g.real() // named by the receiver's ID
	}
	if g := b.greets[greeting{to, local}]; f == nil && g != nil && h.Attribute == cm.AttrSIDRREP {
		f = g.real() // which repeats the request's ID
	}
	if f == nil {
		// key.handshake keeps connections between the same addresses apart.
		f = b.flow(flowKey{src: from, dst: to, qpn: qp1, handshake: local}, protoCM)
		back := b.flow(flowKey{src: to, dst: from, qpn: qp1, handshake: local, reply: true},
			protoCM)
		pair(f, back)
		if f != nil && back != nil {
			b.greet(greeting{from, local}, back)
		}
	}
	row := b.row(f, SetUp, 0, d.FrameLen)
	if row == None {
		return f, row
	}
	switch h.Attribute {
	case cm.AttrSIDRREQ:
		f.asks = true
	case cm.AttrREQ:
		f.begins, f.asks = true, true
		if r, _, ok := cm.ParseREQ(data); ok {
			f.greet, f.greetQPN = &r, uint32(r.LocalQPN)
		}
	case cm.AttrREP:
		if r, _, ok := cm.ParseREP(data); ok {
			b.greet(greeting{from, r.LocalCommID}, f.peer)
			b.establish(f, uint32(r.LocalQPN))
		}
	case cm.AttrREJ:
		if r, _, ok := cm.ParseREJ(data); ok {
			b.t.Packets.Kind[row] = Reset
			f.note = fmt.Sprintf("rejected: %v", r.Reason)
			if g := f.peer; r.Reason == cm.RejInvalidServiceID && g != nil && g.greet != nil {
				f.note += fmt.Sprintf(", nobody listens at port %d", g.greet.ServiceID.Port())
			}
		}
	}
	return f, row
}

// other returns the flow from the end that a greeting is of; a nil flow has none.
func (f *flow) other() *flow {
	if f == nil {
		return nil
	}
	return f.real().peer
}

// maxGreetings bounds the connections being set up that are remembered.
const maxGreetings = 1 << 16

// greet remembers the flow to an end that has named itself.
func (b *builder) greet(g greeting, to *flow) {
	if to != nil && g.id != 0 && len(b.greets) < maxGreetings {
		b.greets[g] = to
	}
}

// establish makes a handshake one of two queue pairs: f is the reply's flow, from the end with
// queue pair qpn.
func (b *builder) establish(f *flow, qpn uint32) {
	g := f.peer
	if g == nil || g.greet == nil || f.protocol != protoCM || g.protocol != protoCM ||
		f.into != nil || g.into != nil {
		return
	}
	service := protoRC
	switch {
	case g.greet.Service == cm.ServiceUC:
		service = protoUC
	case g.greet.Service == cm.ServiceExtended && g.greet.ExtendedTransport == cm.ExtendedXRC:
		service = protoXRC
	}
	path := &g.greet.Primary
	a, c := address(path.LocalGID, g.key.src), address(path.RemoteGID, f.key.src)
	there := b.flow(flowKey{src: a, dst: c, qpn: qpn}, service)
	back := b.flow(flowKey{src: c, dst: a, qpn: g.greetQPN}, service)
	if there == nil || back == nil || there.protocol == protoCM || back.protocol == protoCM {
		return // forged: into would lead in a circle
	}
	if there.peer != nil && there.peer != back || back.peer != nil && back.peer != there {
		return // an earlier connection had these queue pairs
	}
	pair(there, back)
	there.begins = true
	if mtu := g.greet.PathMTU.Bytes(); there.mtu == 0 && mtu > 0 {
		there.mtu, back.mtu = uint32(mtu), uint32(mtu)
	}
	g.into, f.into = there, back
}

// address returns the IP address of a path's GID. Other GIDs leave that of the datagram.
func address(g ib.GID, datagram netip.Addr) netip.Addr {
	if a := g.Addr(); !g.IsZero() && a.Is4() == datagram.Is4() {
		return a
	}
	return datagram
}
