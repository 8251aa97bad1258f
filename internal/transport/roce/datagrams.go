// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"net/netip"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/roce"
	"verbena/internal/sys/shmring"
	"verbena/internal/transport/shm"
	wire "verbena/internal/wire/roce"
)

// A queue pair of UD sends each datagram to another destination, if the application wants it. So
// the way is chosen for each burst:
//
//	Next: path, QPN ─► ringFor ─► a ring that the process of the QPN has taken ─► flushRing
//	                           └► none: flushSockets ─► Rings.Offer, for datagrams to come
//
// An entry in a ring has the two addresses before its datagrams, as a socket tells them. They go
// into the receiver's GRH.

// destination identifies the queue pair that a datagram goes to.
type destination struct {
	path *roce.Path
	qpn  ib.QPN
}

// flushDatagrams is FlushOutput where each packet has a destination.
func (c *Conn) flushDatagrams(now monotime.Time) {
	for !c.Closed() {
		if _, _, ok := c.each.Next(); !ok {
			return
		}
		o := c.nextRing()
		if o == nil {
			if c.flushSockets(now); c.nextRing() == nil {
				return
			}
			continue
		}
		switch c.flushRing(o, now) {
		case shm.Full: // datagrams to others wait as well, for stallTimeout at most
			return
		case shm.Gone:
			c.ring = nil
		}
	}
}

// nextRing returns the ring that the machine's next packet goes by, nil if it goes by a socket.
func (c *Conn) nextRing() *shm.Out {
	if c.each == nil {
		return c.ring
	}
	path, q, ok := c.each.Next()
	if !ok || path == nil {
		return nil
	}
	if to := (destination{path, q}); c.ring == nil || c.to != to {
		o, offer := c.ringFor(to)
		c.to, c.ring = to, o
		if offer != nil {
			c.offer = offer
		}
	}
	return c.ring
}

// staysIn reports whether the machine's next packet goes by o, the ring of the one before.
func (c *Conn) staysIn(o *shm.Out) bool {
	if c.each == nil || c.ring != o {
		return c.ring == o
	}
	path, q, ok := c.each.Next()
	return ok && c.to == destination{path, q}
}

// ringFor returns the ring for datagrams to a destination. If there is none yet, offer makes one,
// which it does without waiting for the other process; c must not be locked then.
func (c *Conn) ringFor(to destination) (o *shm.Out, offer func()) {
	t, dst := c.roce, to.path.Dst
	if to.qpn <= ib.QP1 || to.qpn == ib.QPMulticast {
		return nil, nil
	}
	if dst.IsLinkLocalUnicast() {
		if s := c.sourceOf(to.path.Src); s != nil {
			dst = dst.WithZone(s.zone)
		}
	}
	// A slot is that of a number at an address whose port this process shares.
	if _, shared := (*t.ours.Load())[dst]; !shared {
		return nil, nil
	}
	slot := t.slotOf(to.qpn)
	if !t.rings.LeadTo(slot) {
		return nil, nil
	}
	if slot == t.rings.Slot() {
		lane := t.laneOf(to.qpn)
		if o = t.rings.LoopMade(lane); o == nil {
			offer = func() { t.rings.OfferLoop(lane) }
		}
		return o, offer
	}
	o, dial := t.rings.Taken(slot)
	if dial {
		offer = func() { t.rings.Offer(slot) }
	}
	return o, offer
}

// addressBytes is the length of an address in a prefix, IPv4 mapped to IPv6.
const addressBytes = shmring.PrefixBytes / 2

// putAddresses writes the prefix of datagrams that take a path.
func putAddresses(prefix []byte, p *roce.Path) {
	src, dst := p.Src.As16(), p.Dst.As16()
	copy(prefix, src[:])
	copy(prefix[addressBytes:], dst[:])
}

// takeAddresses reads and checks a prefix, which the other side may write meanwhile. The datagrams
// are for an address where this process receives, as those of a socket are.
func (r *ringReader) takeAddresses(prefix []byte) bool {
	var src, dst [addressBytes]byte
	copy(src[:], prefix)
	copy(dst[:], prefix[addressBytes:])
	r.src, r.dst = netip.AddrFrom16(src).Unmap(), netip.AddrFrom16(dst).Unmap()
	return (*r.roce.ours.Load())[r.dst] && r.src.Is4() == r.dst.Is4() && !r.src.IsUnspecified() &&
		!r.src.IsMulticast()
}

// owns reports whether the process that writes the ring has the queue pair that a datagram names as
// its source. Packets of other services name none, and the machine refuses them.
func (r *ringReader) owns(p *wire.Packet) bool {
	return p.Info.Service != wire.ServiceUD || r.roce.slotOf(p.DETH.SrcQP) == r.slot
}
