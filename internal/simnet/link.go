// SPDX-License-Identifier: BSD-2-Clause

package simnet

import (
	"net/netip"

	"verbena/internal/monotime"
)

// Link carries datagrams one way, as a port of a switch and its cable do: they wait in a
// buffer, leave at a rate, and travel for a while. Several routes may share a link.
type Link struct {
	Rate   int64             // bits a second; 0 is without limit
	Delay  monotime.Duration // from one end to the other
	Jitter monotime.Duration // up to this is added to Delay, in order
	Buffer int               // bytes that may wait; the rest is dropped; 0 is without limit
	MarkAt int               // bytes waiting from which ECN-capable senders are marked; 0 is never
	// Of a million datagrams, Loss is the number that begin a loss, of LossRun in a row (0 is 1).
	// Reorder is the number that arrive up to Late later than in order.
	Loss, LossRun, Reorder int
	Late                   monotime.Duration

	Count LinkCounts

	net     *Net
	free    monotime.Time // the line is busy until then
	last    monotime.Time // the latest arrival in order
	losing  int           // datagrams that the loss under way still takes
	flying  []passenger   // in order of arrival, from first
	first   int
	arrival func()
}

// passenger is a datagram on a link and the links that it takes after it.
type passenger struct {
	at   monotime.Time
	d    Datagram
	then []*Link
}

// LinkCounts count the events of a link.
type LinkCounts struct {
	Passed, Lost, Dropped, Marked, Late int
	Queued, MostQueued                  monotime.Duration // in the buffer, of all and at most
}

// frameBytes are added to a UDP payload on the line: Ethernet's preamble and gap, its header
// and check, IPv4, UDP.
const frameBytes = 20 + 18 + 20 + 8

// ECN codepoints of a Datagram. Spec: RFC 3168, section 5.
const (
	notECT      = 0
	Congested   = 3
	ecnMask     = 3
	linkMillion = 1_000_000
)

// Route has all that src sends to dst take these links, one after the other, instead of the
// network's Faults.
func (n *Net) Route(src, dst netip.Addr, links ...*Link) {
	for _, l := range links {
		if l.net == nil {
			l.net, l.arrival = n, l.arrive
		}
	}
	n.routes[[2]netip.Addr{src, dst}] = links
}

// enter takes a datagram, which goes on over then.
func (l *Link) enter(d Datagram, then []*Link) {
	n := l.net
	if l.lose() {
		l.Count.Lost++
		return
	}
	start := max(l.free, n.now)
	if l.Rate > 0 {
		bits := int64(len(d.Payload)+frameBytes) * 8
		waiting := int64(start-n.now) * (l.Rate / 8) / int64(monotime.Second)
		if l.Buffer > 0 && waiting+bits/8 > int64(l.Buffer) {
			l.Count.Dropped++
			return
		}
		if l.MarkAt > 0 && waiting >= int64(l.MarkAt) && d.TOS&ecnMask != notECT {
			l.Count.Marked++
			d.TOS |= Congested
		}
		l.free = start.Add(monotime.Duration(bits * int64(monotime.Second) / l.Rate))
	}
	l.Count.Passed++
	l.Count.Queued += start.Sub(n.now)
	l.Count.MostQueued = max(l.Count.MostQueued, start.Sub(n.now))
	at := max(l.free, start).Add(l.Delay)
	if l.Jitter > 0 {
		at = at.Add(monotime.Duration(n.Rand.Int64N(int64(l.Jitter))))
	}
	if l.Reorder > 0 && l.Late > 0 && n.Rand.IntN(linkMillion) < l.Reorder {
		l.Count.Late++
		late := monotime.Duration(n.Rand.Int64N(int64(l.Late)))
		n.At(at.Add(late), func() { n.forward(&d, then) })
		return
	}
	at = max(at, l.last)
	l.last = at
	l.flying = append(l.flying, passenger{at, d, then})
	if len(l.flying)-l.first == 1 {
		n.At(at, l.arrival)
	}
}

// lose reports whether the link loses the next datagram.
func (l *Link) lose() bool {
	if l.losing > 0 {
		l.losing--
		return true
	}
	if l.Loss == 0 || l.net.Rand.IntN(linkMillion) >= l.Loss {
		return false
	}
	l.losing = max(l.LossRun, 1) - 1
	return true
}

// arrive hands on the datagrams at the end of the link.
func (l *Link) arrive() {
	for l.first < len(l.flying) && l.flying[l.first].at <= l.net.now {
		p := l.flying[l.first]
		l.flying[l.first] = passenger{}
		l.first++
		l.net.forward(&p.d, p.then)
	}
	if l.first == len(l.flying) {
		l.flying, l.first = l.flying[:0], 0
		return
	}
	if l.first > len(l.flying)/2 {
		n := copy(l.flying, l.flying[l.first:])
		clear(l.flying[n:])
		l.flying, l.first = l.flying[:n], 0
	}
	l.net.At(l.flying[l.first].at, l.arrival)
}

// forward hands a datagram to the next link, or to its host.
func (n *Net) forward(d *Datagram, then []*Link) {
	if len(then) > 0 {
		then[0].enter(*d, then[1:])
		return
	}
	host := n.hosts[d.Dst]
	if host == nil || n.cut[[2]netip.Addr{d.Src, d.Dst}] {
		n.Count.Parted++
		return
	}
	n.Count.Delivered++
	n.Note(uint64(n.now), uint64(len(d.Payload)))
	host(d)
}
