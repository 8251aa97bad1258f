// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"net/netip"
	"sync/atomic"

	"verbena/ib"
	"verbena/internal/engine"
	"verbena/internal/monotime"
	"verbena/internal/roce"
	"verbena/internal/sys/portshare"
	"verbena/internal/sys/shmring"
	"verbena/internal/sys/udp"
	"verbena/internal/transport/frames"
	"verbena/internal/transport/shm"
	wire "verbena/internal/wire/roce"
)

// Packets between queue pairs of one user on one host need no network:
// they go through memory that the two processes share (package shm), or within
// one process through its own. The machines and their packets are the same; only
// the ICRC is not computed, as there is nothing on the way that it protects
// against.
//
//	QP.Modify(RTR) ─► ringTo: the destination is an address of this host whose port is
//	                  shared with the process that owns the QPN's slot ─► a ring to it
//
// It is settled before the first packet, for each direction by its sender, and stays for as long as
// the queue pair is connected. Nothing is lost in a ring while the process at its other end lives,
// so no peer that lives is given up (question.go). A ring ends when that process does. Its contents
// are lost, and RC queue pairs with work for that process fail. A ring that is given up for
// nonsense in it is another matter: later packets go through the socket, and the protocol recovers
// as on any network.

// slotOf is the slot of the process that has a queue pair.
func (t *Transport) slotOf(q ib.QPN) int {
	if t.solo { // this process has all numbers
		return t.rings.Slot()
	}
	return portshare.SlotOf(q)
}

// ringTo returns the ring to the process that has queue pair q at address dst, nil if
// its packets go through the socket.
func (t *Transport) ringTo(src, dst netip.Addr, q ib.QPN) *shm.Out {
	slot := t.slotOf(q)
	if !t.rings.LeadTo(slot) {
		return nil
	}
	if dst.IsLinkLocalUnicast() {
		dst = dst.WithZone(src.Zone())
	}
	if !t.hosts(dst) {
		return nil
	}
	if slot != t.rings.Slot() {
		return t.rings.To(slot)
	}
	return t.rings.Loop(t.laneOf(q))
}

// laneOf returns the Lane of a queue pair of this process.
func (t *Transport) laneOf(q ib.QPN) *engine.Lane {
	if found := t.eng.Find(q); found != nil {
		if c, ok := ConnOf(found); ok {
			return c.ack.Lane()
		}
	}
	return t.eng.FirstLane()
}

// hosts reports whether the port of an address is shared by this process and
// those that it meets: only then is a slot that of a queue pair's number there.
func (t *Transport) hosts(dst netip.Addr) bool {
	t.mu.Lock()
	ours := t.opened[dst] != nil || t.received[dst]
	t.mu.Unlock()
	if ours || !t.rings.Shared() {
		return ours
	}
	// An address of this host can be bound. That of a peer which is to listen
	// there and has not yet is opened for it.
	s, err := udp.Listen(dst, 0, udp.Options{SendOnly: true})
	if err != nil {
		return false
	}
	s.Close()
	if !dst.IsLoopback() && frames.InterfaceOf(dst) == 0 { // net.ipv4.ip_nonlocal_bind
		return false
	}
	return t.Listen(dst) == nil
}

// ringReader hands the packets of a ring to their connections, as Port does those of a socket.
type ringReader struct {
	roce  *Transport
	slot  int            // of the process that writes
	rcvd  *atomic.Uint64 // packets
	pkt   wire.Packet
	meta  roce.Meta
	cur   *Conn // locked; its output is pumped when the next one comes
	ahead ahead

	src, dst netip.Addr // of the datagrams of an entry
}

func (t *Transport) newReader(slot int, rcvd *atomic.Uint64) shm.Reader {
	return &ringReader{roce: t, slot: slot, rcvd: rcvd}
}

// Burst implements shm.Reader.
func (r *ringReader) Burst(now monotime.Time, m *shmring.Message, mayDelayAck bool) {
	if m.Prefixed && !r.takeAddresses(m.Prefix) {
		r.roce.rings.Count.Refused.Add(1)
		return
	}
	r.ahead.next()
	for at := 0; at < len(m.Data); at += m.Segment {
		end := min(at+m.Segment, len(m.Data))
		r.cur = r.packet(now, m.Data[at:end:end], m, mayDelayAck, r.cur)
	}
}

// EndTurn implements shm.Reader.
func (r *ringReader) EndTurn(now monotime.Time, mayDelayAck bool) {
	r.ahead.forget()
	if cur := r.cur; cur != nil {
		r.cur = nil
		cur.leaveRingUnlock(now, mayDelayAck)
	}
}

// leaveRingUnlock is leaveUnlock after packets of a ring.
func (c *Conn) leaveRingUnlock(now monotime.Time, mayDelayAck bool) {
	c.HeardInRing(now)
	c.leaveUnlock(now, mayDelayAck)
}

// packet gives a packet to its connection, which it returns locked. The other side may write b
// meanwhile: Parse copies the header values before they are checked and used, and the payload is
// copied once.
func (r *ringReader) packet(now monotime.Time, b []byte, m *shmring.Message, mayDelayAck bool,
	cur *Conn) *Conn {
	v := r.pkt.Parse(b)
	if v == wire.WellFormed {
		n := uint32(1)
		if !m.Prefixed {
			n = roce.StandsFor(&r.pkt)
		}
		r.rcvd.Add(uint64(n))
	} else {
		r.rcvd.Add(1)
		r.roce.count.malformed[v].Add(1)
		if v != wire.BadOpcode {
			return cur
		}
	}
	q := r.pkt.DestQP
	if cur == nil || cur.QPN() != q {
		if cur != nil {
			cur.leaveRingUnlock(now, mayDelayAck)
		}
		if cur = r.roce.lock(q); cur == nil {
			return nil
		}
	}
	if cur.passes != nil && r.pkt.Info.Response {
		if m.Prefixed || !cur.passes.answer(now, r.slot, m.Tag, &r.pkt, roce.StandsFor(&r.pkt)) {
			r.roce.rings.Count.Refused.Add(1)
		}
		return cur
	}
	switch {
	case m.Prefixed != (cur.each != nil), m.Prefixed && !r.owns(&r.pkt):
		r.roce.rings.Count.Refused.Add(1)
		return cur
	case m.Prefixed:
		r.meta = roce.Meta{Src: r.src, Dst: r.dst, SrcPort: roce.UDPPort, TOS: m.TOS}
	// Counts packets that do not come from the peer of a connected queue pair, where a socket would
	// show another address. Packets that come before it has a peer count, too.
	case cur.path == nil || cur.peerSlot != r.slot || cur.peerTag != m.Tag:
		r.roce.rings.Count.Refused.Add(1)
		return cur
	default:
		r.meta = roce.Meta{Src: cur.path.Dst, Dst: cur.path.Src, SrcPort: roce.UDPPort, TOS: m.TOS,
			Long: true}
	}
	cur.packets.HandleInput(now, &r.pkt, &r.meta)
	return cur
}

var _ engine.TimeoutGuard = (*Conn)(nil)
