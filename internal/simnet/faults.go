// SPDX-License-Identifier: BSD-2-Clause

package simnet

import (
	"bytes"
	"net/netip"

	"verbena/internal/monotime"
)

// Faults are the chances, of 1000, that a datagram meets each fault, and how
// long datagrams take.
type Faults struct {
	Loss, Duplicate, Reorder, BitFlip, Truncate int
	Delay                                       monotime.Duration // always
	// of datagrams reordered or repeated: up to this
	Jitter monotime.Duration
}

// None reports whether datagrams arrive once, whole and in order.
func (f *Faults) None() bool {
	return f.Loss == 0 && f.Duplicate == 0 && f.Reorder == 0 && f.BitFlip == 0 && f.Truncate == 0
}

// Send takes a datagram, whose payload it keeps.
func (n *Net) Send(d Datagram) {
	n.Count.Sent++
	if links := n.routes[[2]netip.Addr{d.Src, d.Dst}]; len(links) > 0 {
		links[0].enter(d, links[1:])
		return
	}
	if n.layout.has(d.Src) {
		if links := n.layout.path(&d); len(links) > 0 {
			links[0].enter(d, links[1:])
		} else {
			n.Count.Parted++
			n.drop(&d)
		}
		return
	}
	f := &n.Faults
	if n.chance(f.Loss) {
		n.Count.Lost++
		return
	}
	copies := 1
	if n.chance(f.Duplicate) {
		n.Count.Repeated++
		copies = 2
	}
	for i := range copies {
		c, delay := d, f.Delay
		if i > 0 || n.chance(f.Reorder) {
			n.Count.Delayed++
			delay += n.jitter()
		}
		if n.chance(f.BitFlip) {
			n.flip(&c)
		}
		if n.chance(f.Truncate) && len(c.Payload) > 0 {
			n.Count.Cut++
			c.Payload, c.Damaged = c.Payload[:n.Rand.IntN(len(c.Payload))], true
		}
		n.After(delay, func() { n.deliver(&c) })
	}
}

func (n *Net) jitter() monotime.Duration {
	if n.Faults.Jitter <= 0 {
		return 0
	}
	return monotime.Duration(n.Rand.Int64N(int64(n.Faults.Jitter)))
}

func (n *Net) chance(of1000 int) bool { return of1000 > 0 && n.Rand.IntN(1000) < of1000 }

// maskedByte is the byte of BTH that the ICRC does not cover: damage to it is
// none.
const maskedByte = 4

// flip changes one to four bits.
func (n *Net) flip(d *Datagram) {
	n.Count.Flipped++
	b := bytes.Clone(d.Payload)
	for range 1 + n.Rand.IntN(4) {
		b[n.Rand.IntN(len(b))] ^= 1 << n.Rand.IntN(8)
	}
	d.Damaged = d.Damaged || !bytes.Equal(b[:maskedByte], d.Payload[:maskedByte]) ||
		!bytes.Equal(b[maskedByte+1:], d.Payload[maskedByte+1:])
	d.Payload = b
}

func (n *Net) deliver(d *Datagram) {
	host := n.hosts[d.Dst]
	if host == nil || n.cut[[2]netip.Addr{d.Src, d.Dst}] {
		n.Count.Parted++
		return
	}
	n.Count.Delivered++
	n.Note(uint64(n.now), uint64(len(d.Payload)))
	n.hash.Write(d.Payload)
	host(d)
}
