// SPDX-License-Identifier: BSD-2-Clause

package timeline

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"time"

	"verbena/internal/wire/pcap"
)

// merge makes one of the connections whose two ends are in two files. All times become those of the
// first file's clock. Each end's packets and operations are those of its own file, and what
// arrived, its marks and round trips those of the other's.
func (b *builder) merge() {
	if !b.merging {
		return
	}
	rows := order(b.rowConn, func(i, j uint32) int { return cmp.Compare(i, j) })
	list := b.twins(rows)
	if len(list) == 0 {
		return
	}
	p := &b.t.Packets
	b.setClocks(list)
	seen := b.fileSpans()
	p.Flight = slices.Repeat([]uint32{None}, p.Len())
	b.opTwin = slices.Repeat([]uint32{None}, len(b.t.Ops))
	for i := range list {
		b.join(&list[i], rows, seen)
	}
	for i, o := range p.Op {
		if o != None && b.opTwin[o] != None {
			p.Op[i] = b.opTwin[o]
		}
	}
	for i, o := range b.opTwin {
		if o != None {
			b.opConn[i] = None
		}
	}
	b.compact(list)
}

// setClocks turns the times of all files to one clock.
func (b *builder) setClocks(list []twin) {
	t := b.t
	best := map[[2]int]*twin{}
	for i := range list {
		w := &list[i]
		k := [2]int{t.Conns[w.conn[0]].File, t.Conns[w.conn[1]].File}
		if o := best[k]; o == nil || o.oneWay && !w.oneWay || o.oneWay == w.oneWay &&
			w.trip < o.trip {
			best[k] = w
		}
	}
	edges := map[int][]clockEdge{}
	for i := range list {
		w := &list[i]
		k := [2]int{t.Conns[w.conn[0]].File, t.Conns[w.conn[1]].File}
		if best[k] == w {
			edges[k[0]] = append(edges[k[0]], clockEdge{k[1], w.ahead})
			edges[k[1]] = append(edges[k[1]], clockEdge{k[0], -w.ahead})
		}
	}
	ahead := clocks(len(t.Files), edges)
	of := func(conn uint32) int64 { return ahead[t.Conns[conn].File] }
	for i, c := range b.rowConn {
		t.Packets.Time[i] -= of(c)
	}
	for i, c := range b.opConn {
		t.Ops[i].Start -= of(c)
		t.Ops[i].End -= of(c)
	}
	for i, c := range b.sampleConn {
		t.Samples[i].Time -= of(c)
	}
	for i := range b.calls {
		b.calls[i].at = b.calls[i].at.Add(-timeOf(ahead[b.calls[i].file]))
	}
	for i := range list {
		w := &list[i]
		w.ahead = ahead[t.Conns[w.conn[1]].File] - ahead[t.Conns[w.conn[0]].File]
	}
}

// fileSpans returns the first and last time of each file.
func (b *builder) fileSpans() []extremes {
	seen := make([]extremes, len(b.t.Files))
	for i, c := range b.rowConn {
		seen[b.t.Conns[c].File].add(b.t.Packets.Time[i])
	}
	for _, m := range b.calls {
		seen[m.file].add(m.at.Sub(b.first).Nanoseconds())
	}
	return seen
}

// join makes a twin's connections one.
func (b *builder) join(w *twin, rows []uint32, seen []extremes) {
	c, o := b.t.Conns[w.conn[0]], b.t.Conns[w.conn[1]]
	b.turn(w, rows)
	c.asks = c.asks || o.asks
	own := [2]*Conn{c, o} // the captures of A's host, and of B's
	if w.end == 1 {
		own = [2]*Conn{o, c}
	}
	base := [2][2]uint32{c.base, o.base}
	p := &b.t.Packets
	var late [2]uint64
	for end, list := range w.marks {
		sender := index(w.end != end) // 0: the earlier file
		at := seen[own[1-end].File]
		arrived := func(s, r uint32) {
			late[end] += b.arrive(s, r)
		}
		groups(list, b.overTCP(w), func(earlier, later []mark) {
			if sender == 1 {
				earlier, later = later, earlier
			}
			for _, m := range earlier {
				p.RTT[m.row] = 0 // the requester's file has it
			}
			pairUp(earlier, later, p.Time, arrived)
		})
		if b.overTCP(w) {
			b.arriveWithin(list, sender == 1)
		}
		for _, m := range list {
			mine := index(p.Flags[m.row]&OfB != 0) == end
			switch sent := index(m.later) == sender; {
			case b.rowConn[m.row] == None:
				continue
			case !sent:
				p.Flags[m.row] = p.Flags[m.row]&^GivenUp | Arrival
				own[end].End(end == 1).Packets++
				if mine {
					b.rebase(c, m.row, base[1-sender][end], base[sender][end])
				}
			case p.Flight[m.row] == None:
				if !mine {
					b.rebase(c, m.row, base[sender][1-end], base[1-sender][1-end])
				}
				t := p.Time[m.row] + max(w.trip, 0)/2
				if t >= at.lo && t <= at.hi && (!b.overTCP(w) || m.ident&dataSegment != 0) {
					p.Flags[m.row] |= GivenUp
				}
			}
			b.rowConn[m.row] = uint32(w.conn[0])
		}
	}
	b.joinEnds(w, c, o, own, late)
}

// turn gives the ends of the later file the names of the earlier's.
func (b *builder) turn(w *twin, rows []uint32) {
	r := rangeOf(b.rowConn, rows, w.conn[1])
	o := b.t.Conns[w.conn[1]]
	if !w.swapped {
		return
	}
	for _, row := range rows[r[0]:r[1]] {
		b.t.Packets.Flags[row] ^= FromB | OfB
	}
	o.A, o.B = o.B, o.A
	o.base[0], o.base[1] = o.base[1], o.base[0]
}

// arrive makes one of a row of the sender's capture and one of the receiver's. It returns 1 if the
// packet came behind later ones, for the first time.
func (b *builder) arrive(s, r uint32) (late uint64) {
	p := &b.t.Packets
	p.Flight[s] = clip(p.Time[r] - p.Time[s])
	p.Flags[s] = p.Flags[s]&^GivenUp | p.Flags[r]&Marked
	p.RTT[s] = p.RTT[r]
	answer := (p.Flags[r]&OfB != 0) != (p.Flags[r]&FromB != 0)
	switch {
	case p.Kind[r] == Bad:
		p.Kind[s] = Bad
	case answer: // the requester's file follows the numbers
		p.Flags[s] = p.Flags[s]&^OfB | p.Flags[r]&OfB
		p.Kind[s], p.Number[s], p.InFlight[s] = p.Kind[r], p.Number[r], p.InFlight[r]
		p.Payload[s] = p.Payload[r]
		if p.Op[r] != None {
			p.Op[s] = p.Op[r]
		}
	default:
		if p.Op[s] != None && p.Op[r] != None {
			b.opTwin[p.Op[r]] = p.Op[s]
		}
		if p.Kind[s] == Sent && p.Kind[r] == Late {
			p.Kind[s], late = Late, 1
		}
	}
	b.rowConn[r] = None
	return late
}

// arriveWithin finds the TCP segments that arrived as parts of others, or in parts: an interface
// has cut or joined them.
func (b *builder) arriveWithin(list []mark, senderLater bool) {
	p := &b.t.Packets
	var files [2][]mark
	for _, m := range list {
		if m.ident&dataSegment != 0 {
			files[index(m.later == senderLater)] = append(files[index(m.later == senderLater)], m)
		}
	}
	// holder returns the first segment that has the last byte of another, and has more behind it.
	holder := func(in []mark, m mark) (mark, bool) {
		i := sort.Search(len(in), func(i int) bool {
			return in[i].sameEnd(true) > m.sameEnd(true)
		})
		if i == len(in) {
			return mark{}, false
		}
		end, length := uint32(in[i].ident>>32), uint32(in[i].ident&(dataSegment-1))
		return in[i], end-uint32(m.ident>>32) < length
	}
	for i, s := range files[1] {
		r, ok := holder(files[0], s)
		if !ok || p.Flight[s.row] != None || p.Time[r.row] < p.Time[s.row] {
			continue
		}
		if next := i + 1; next < len(files[1]) && files[1][next].sameEnd(true) == s.sameEnd(true) &&
			p.Time[files[1][next].row] <= p.Time[r.row] {
			continue // it was sent again before
		}
		p.Flight[s.row] = clip(p.Time[r.row] - p.Time[s.row])
		p.Flags[s.row] &^= GivenUp
	}
	for _, r := range files[0] {
		if s, ok := holder(files[1], r); ok && p.Time[s.row] <= p.Time[r.row] {
			b.rowConn[r.row] = None
		}
	}
}

// rebase counts the number of a row from another base.
func (b *builder) rebase(c *Conn, row, from, to uint32) {
	d := int64(int32(from - to))
	switch c.Protocol {
	case protoUD, protoCM:
		return
	case protoRC, protoUC, protoXRC:
		d = int64(int32((from-to)<<8) >> 8) // PSNs have 24 bits
	}
	n := &b.t.Packets.Number[row]
	*n = clip(int64(*n) + d)
}

// joinEnds makes the ends of a twin one connection's: each as its own host has captured it.
func (b *builder) joinEnds(w *twin, c, o *Conn, own [2]*Conn, late [2]uint64) {
	ends := [2]End{own[0].A, own[1].B}
	for i := range ends {
		e, far := &ends[i], own[1-i].End(i == 1)
		e.Marked, e.Bad, e.Late = max(e.Marked, far.Marked), max(e.Bad, far.Bad), e.Late+late[i]
		if e.QPN == 0 {
			e.QPN = far.QPN
		}
		if e.Port == 0 {
			e.Port = far.Port
		}
	}
	c.A, c.B = ends[0], ends[1]
	c.Files = [2]int{own[0].File, own[1].File}
	c.Flight = max(w.trip, 0) / 2
	if c.Note == "" {
		c.Note = o.Note
	}
	c.Captures = fmt.Sprintf("What A sent is of %s, what B sent of %s.",
		b.t.Files[own[0].File].Name, b.t.Files[own[1].File].Name)
	switch name, d := b.t.Files[o.File].Name, round(max(w.ahead, -w.ahead)); {
	case w.oneWay:
		c.Captures += " Packets went one way: their clocks cannot be compared."
	case d == 0:
		c.Captures += " Their clocks agree"
	case w.ahead < 0:
		c.Captures += fmt.Sprintf(" The clock of %s is %v behind", name, d)
	default:
		c.Captures += fmt.Sprintf(" The clock of %s is %v ahead", name, d)
	}
	if !w.oneWay {
		c.Captures += fmt.Sprintf(", and a packet takes %v at least.",
			round(max(c.Flight, int64(time.Nanosecond))))
	}
}

// compact leaves out the connections that were joined with others.
func (b *builder) compact(list []twin) {
	into := make([]uint32, len(b.t.Conns)) // of joined ones: the other connection
	for i := range into {
		into[i] = uint32(i)
	}
	swapped := make([]bool, len(into))
	for _, w := range list {
		into[w.conn[1]], swapped[w.conn[1]] = uint32(w.conn[0]), w.swapped
	}
	place := make([]uint32, len(into))
	conns := b.t.Conns[:0:0]
	for i, c := range b.t.Conns {
		if into[i] == uint32(i) {
			place[i] = uint32(len(conns))
			conns = append(conns, c)
		} else {
			place[i] = place[into[i]]
		}
	}
	for i, c := range b.opConn {
		if c != None {
			b.t.Ops[i].OfB = b.t.Ops[i].OfB != swapped[c]
		}
	}
	for i, c := range b.sampleConn {
		b.t.Samples[i].OfB = b.t.Samples[i].OfB != swapped[c]
	}
	for _, column := range [][]uint32{b.rowConn, b.opConn, b.sampleConn} {
		for i, c := range column {
			if c != None {
				column[i] = place[c]
			}
		}
	}
	b.t.Conns = conns
}

// joined leaves out the sorted rows that have become one with others. They are the last.
func joined(conn, rows []uint32) []uint32 {
	n := len(rows)
	for n > 0 && conn[rows[n-1]] == None {
		n--
	}
	return rows[:n]
}

// keep notes by what the connection's twin in another file is found. z is nil without packets of B.
func (c *Conn) keep(a, z *flow) {
	c.keys[0], c.base[0] = a.key, a.space.base
	switch {
	case a.told == pcap.Outbound || z != nil && z.told == pcap.Inbound:
		c.local = 1
	case a.told == pcap.Inbound || z != nil && z.told == pcap.Outbound:
		c.local = 2
	}
	if z != nil {
		c.keys[1], c.base[1] = z.key, z.space.base
	}
}
