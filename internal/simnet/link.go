// SPDX-License-Identifier: BSD-2-Clause

package simnet

import (
	"net/netip"

	"verbena/internal/monotime"
)

// Link carries datagrams one way, as a port of a switch and its cable do: they wait in a
// buffer, leave at a rate, and travel for a while. Several paths may share a link.
//
// All but Rate and Delay may change at any time; Set changes these two.
type Link struct {
	Name   string
	Rate   int64             // bits a second; 0 is without limit
	Delay  monotime.Duration // from one end to the other
	Jitter monotime.Duration // up to this is added to Delay, in order
	Buffer int               // bytes that may wait; the rest is dropped; 0 is without limit
	Mark   Marking

	// Of a million datagrams, Loss are lost, beside those of Bursts, and Reorder arrive up to Late
	// later than in order.
	Loss, Reorder int
	Bursts        Bursts
	Late          monotime.Duration

	Count LinkCounts

	net     *Net
	down    bool
	bad     bool          // the state of Bursts
	free    monotime.Time // the line is busy until then
	last    monotime.Time // the latest arrival in order
	flying  []passenger   // in order of arrival, from first
	first   int
	due     monotime.Time // of the event that arrival is for
	arrival func()
}

// Marking has a link mark ECN-capable datagrams by the bytes that wait before them. The chance
// rises from 0 where From wait to Most, of a million, where To wait. From there all are marked.
//
// Source: DCQCN (Zhu et al., SIGCOMM 2015), figure 5: RED on the instantaneous queue.
type Marking struct {
	From, To int // bytes; From 0 is never, To 0 is From
	Most     int
	Drop     bool // datagrams that are not ECN-capable are dropped instead
}

// Bursts are losses in bursts. Of a million datagrams in the good state Begin enter the bad one.
// Of a million in the bad state End leave it, and Loss are lost.
//
// Source: the model of Gilbert and Elliott (Elliott, Bell System Technical Journal 42, 1963).
type Bursts struct{ Begin, End, Loss int }

// passenger is a datagram on a link and the links that it takes after it.
type passenger struct {
	left, at monotime.Time // its last bit leaves the buffer, and arrives
	d        Datagram
	then     []*Link
}

// LinkCounts count the events of a link.
type LinkCounts struct {
	Passed, Lost, Dropped, Marked, Late int
	Bytes                               int64             // passed, on the line
	Queued, MostQueued                  monotime.Duration // in the buffer, of all and at most
}

// FrameBytes are added to a UDP payload on the line: Ethernet's preamble and gap, its header
// and check, IPv4, UDP.
const FrameBytes = 20 + 18 + 20 + 8

// ECN codepoints of a Datagram. Spec: RFC 3168, section 5.
const (
	notECT    = 0
	Congested = 3
	ecnMask   = 3
)

// million is the whole that chances of links are parts of.
const million = 1_000_000

// Route has all that src sends to dst take these links, one after the other, instead of the
// network's Faults.
func (n *Net) Route(src, dst netip.Addr, links ...*Link) {
	for _, l := range links {
		l.join(n)
	}
	n.routes[[2]netip.Addr{src, dst}] = links
}

func (l *Link) join(n *Net) {
	if l.net == nil {
		l.net, l.arrival = n, l.arrive
	}
}

// Waiting returns how many bytes wait to leave.
func (l *Link) Waiting() int {
	if l.net == nil {
		return 0
	}
	return l.waiting(max(l.free, l.net.now))
}

func (l *Link) waiting(start monotime.Time) int {
	return int(int64(start-l.net.now) * (l.Rate / 8) / int64(monotime.Second))
}

// enter takes a datagram, which goes on over then.
func (l *Link) enter(d Datagram, then []*Link) {
	n := l.net
	if l.down || l.lose() {
		l.Count.Lost++
		n.drop(&d)
		return
	}
	start := max(l.free, n.now)
	bytes := d.line()
	left := start
	if l.Rate > 0 {
		waiting := l.waiting(start)
		if l.Buffer > 0 && waiting+bytes > l.Buffer {
			l.Count.Dropped++
			n.drop(&d)
			return
		}
		if l.marks(waiting) {
			switch {
			case d.TOS&ecnMask != notECT:
				l.Count.Marked++
				d.TOS |= Congested
			case l.Mark.Drop:
				l.Count.Dropped++
				n.drop(&d)
				return
			}
		}
		took := monotime.Duration(int64(bytes) * 8 * int64(monotime.Second) / l.Rate)
		left = start.Add(max(took, 1)) // so that time passes
		l.free = left
	}
	l.Count.Passed++
	l.Count.Bytes += int64(bytes)
	l.Count.Queued += start.Sub(n.now)
	l.Count.MostQueued = max(l.Count.MostQueued, start.Sub(n.now))
	at := left.Add(l.Delay)
	if l.Jitter > 0 {
		at = at.Add(monotime.Duration(n.Rand.Int64N(int64(l.Jitter))))
	}
	if l.Reorder > 0 && l.Late > 0 && n.Rand.IntN(million) < l.Reorder {
		l.Count.Late++
		late := monotime.Duration(n.Rand.Int64N(int64(l.Late)))
		n.At(at.Add(late), func() { n.forward(&d, then) })
		return
	}
	at = max(at, l.last)
	l.last = at
	l.flying = append(l.flying, passenger{left, at, d, then})
	if len(l.flying)-l.first == 1 {
		l.expect(at)
	}
}

// lose reports whether the link loses the next datagram.
func (l *Link) lose() bool {
	chance := func(n int) bool { return n > 0 && l.net.Rand.IntN(million) < n }
	if b := &l.Bursts; b.Begin > 0 {
		if l.bad && chance(b.End) || !l.bad && chance(b.Begin) {
			l.bad = !l.bad
		}
		if l.bad && chance(b.Loss) {
			return true
		}
	}
	return chance(l.Loss)
}

// marks reports whether a datagram before which so many bytes wait is to be marked.
func (l *Link) marks(waiting int) bool {
	m := &l.Mark
	if m.From == 0 || waiting < m.From {
		return false
	}
	return waiting >= m.To ||
		l.net.Rand.IntN(million) < int(int64(m.Most)*int64(waiting-m.From)/int64(m.To-m.From))
}

// Set changes the rate and the delay. Bytes that wait leave at the new rate. Datagrams that have
// left arrive when they would have, and the later ones behind them.
func (l *Link) Set(rate int64, delay monotime.Duration) {
	old, longer := l.Rate, delay-l.Delay
	l.Rate, l.Delay = rate, delay
	if l.net == nil {
		return
	}
	now := l.net.now
	scale := func(t monotime.Time) monotime.Time {
		if t <= now || old == 0 {
			return t
		}
		if rate == 0 {
			return now
		}
		return now.Add(monotime.Duration(float64(t.Sub(now)) * float64(old) / float64(rate)))
	}
	l.free = scale(l.free)
	l.last = now
	for i := l.first; i < len(l.flying); i++ {
		p := &l.flying[i]
		if p.left > now {
			left := scale(p.left)
			p.at = p.at.Add(left.Sub(p.left) + longer)
			p.left = left
		}
		p.at = max(p.at, l.last)
		l.last = p.at
	}
	if l.first < len(l.flying) {
		l.expect(l.flying[l.first].at)
	}
}

// expect has arrive run at a time, and not at one that was expected before.
func (l *Link) expect(at monotime.Time) {
	l.due = at
	l.net.At(at, l.arrival)
}

// arrive hands on the datagrams at the end of the link.
func (l *Link) arrive() {
	if l.net.now != l.due {
		return // Set has moved it
	}
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
	l.expect(l.flying[l.first].at)
}

// forward hands a datagram to the next link, or to its host.
func (n *Net) forward(d *Datagram, then []*Link) {
	if len(then) > 0 {
		then[0].enter(*d, then[1:])
		return
	}
	host := n.hosts[d.Dst]
	if host == nil || len(n.cut) > 0 && n.cut[[2]netip.Addr{d.Src, d.Dst}] {
		n.Count.Parted++
		return
	}
	n.Count.Delivered++
	n.Note(uint64(n.now), uint64(len(d.Payload)))
	host(d)
}

// drop counts a datagram that the network drops.
func (n *Net) drop(d *Datagram) {
	if d.Drops != nil {
		*d.Drops++
	}
	if n.Dropped != nil {
		n.Dropped(d)
	}
}

// line returns how many bytes a datagram takes on the line.
func (d *Datagram) line() int {
	if d.Bytes > 0 {
		return d.Bytes
	}
	return len(d.Payload) + FrameBytes
}
