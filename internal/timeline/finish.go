// SPDX-License-Identifier: BSD-2-Clause

package timeline

import (
	"cmp"
	"slices"
)

// placement says where the rows of a file's flows go.
type placement struct {
	conn int
	b    bool
}

// endFile makes connections of the flows of a file. Its rows begin at the given ones.
func (b *builder) endFile() {
	b.releaseAll()
	place := make([]placement, len(b.all))
	for i := range place {
		place[i].conn = -1
	}
	for _, f := range b.all {
		if r := f.real(); r != f && f.seen {
			r.seen = true
			r.h.Packets += f.h.Packets
			r.h.Marked += f.h.Marked
			if r.note == "" {
				r.note = f.note
			}
		}
	}
	for _, f := range b.all {
		g := f.peer
		if f.into != nil || place[f.index].conn >= 0 || !f.seen && (g == nil || !g.seen) {
			continue
		}
		a, z := f, g
		if g != nil && g.begins && !f.begins {
			a, z = g, f
		}
		c := &Conn{File: b.file, Files: [2]int{b.file, b.file}, Protocol: f.protocol,
			A: endOf(a, z), Note: a.note}
		c.keep(a, z)
		c.asks = f.asks || g != nil && g.asks
		place[a.index] = placement{len(b.t.Conns), false}
		if z != nil {
			place[z.index] = placement{len(b.t.Conns), true}
			c.B = endOf(z, a)
			if c.Note == "" {
				c.Note = z.note
			}
		} else {
			c.B = End{Addr: a.key.dst, Port: a.key.dstPort, QPN: a.key.qpn}
		}
		b.t.Conns = append(b.t.Conns, c)
	}
	for _, f := range b.all {
		place[f.index] = place[f.real().index]
	}
	b.place(place)
}

// endOf returns the end that sends a flow; back is the other flow, or nil.
func endOf(f, back *flow) End {
	e := End{Addr: f.key.src, Port: f.key.srcPort, Health: f.h, QPN: f.key.srcQPN}
	if back != nil && back.key.qpn != 0 {
		e.QPN = back.key.qpn
	}
	if e.QPN == 0 {
		e.QPN = f.own
	}
	switch f.protocol {
	case protoRC, protoUC, protoXRC, protoTRP:
		e.Base = f.space.base
	}
	return e
}

// place notes the connection of each row, operation and sample of the file.
func (b *builder) place(place []placement) {
	p := &b.t.Packets
	for i := len(b.rowConn); i < len(p.Time); i++ {
		at := place[b.rowFlow[i-b.rowBase]]
		b.rowConn = append(b.rowConn, uint32(at.conn))
		other := p.Flags[i]&OfB != 0 // the number is of the other end's requests
		p.Flags[i] &^= OfB
		if at.b {
			p.Flags[i] |= FromB
		}
		if at.b != other {
			p.Flags[i] |= OfB
		}
	}
	for i := len(b.opConn); i < len(b.t.Ops); i++ {
		at := place[b.opFlow[i-b.opBase]]
		b.opConn = append(b.opConn, uint32(at.conn))
		b.t.Ops[i].OfB = at.b
	}
	for i := len(b.sampleConn); i < len(b.t.Samples); i++ {
		at := place[b.sampled[i-b.sampleBase]]
		b.sampleConn = append(b.sampleConn, uint32(at.conn))
		b.t.Samples[i].OfB = at.b
	}
	b.rowBase, b.opBase, b.sampleBase = len(b.rowConn), len(b.opConn), len(b.sampleConn)
}

// finish puts together what belongs to a connection, and counts time from the first packet.
func (b *builder) finish() {
	b.merge()
	t := b.t
	p := &t.Packets
	var least int64
	for i, at := range p.Time {
		if i == 0 || at < least {
			least = at
		}
	}
	t.Start = b.first.Add(timeOf(least))
	for i := range p.Time {
		p.Time[i] -= least
		t.Span = max(t.Span, p.Time[i])
	}
	rows := order(b.rowConn, func(i, j uint32) int { return cmp.Compare(p.Time[i], p.Time[j]) })
	rows = joined(b.rowConn, rows)
	t.Joined = len(b.rowConn) - len(rows)
	ops := order(b.opConn, func(i, j uint32) int {
		return cmp.Compare(t.Ops[i].Start, t.Ops[j].Start)
	})
	samples := order(b.sampleConn, func(i, j uint32) int {
		return cmp.Compare(t.Samples[i].Time, t.Samples[j].Time)
	})
	ops = joined(b.opConn, ops)
	place := make([]uint32, len(t.Ops))
	for i, o := range ops {
		place[o] = uint32(i)
	}
	p.Time, p.Number, p.Payload = pick(p.Time, rows), pick(p.Number, rows), pick(p.Payload, rows)
	p.Length, p.Op, p.RTT = pick(p.Length, rows), pick(p.Op, rows), pick(p.RTT, rows)
	p.InFlight, p.Serial = pick(p.InFlight, rows), pick(p.Serial, rows)
	p.Kind, p.Flags = pick(p.Kind, rows), pick(p.Flags, rows)
	if p.Flight != nil {
		p.Flight = pick(p.Flight, rows)
	}
	for i, o := range p.Op {
		if o != None {
			p.Op[i] = place[o]
		}
	}
	t.Ops, t.Samples = pick(t.Ops, ops), pick(t.Samples, samples)
	for i := range t.Ops {
		t.Ops[i].Start -= least
		t.Ops[i].End -= least
	}
	for i := range t.Samples {
		t.Samples[i].Time -= least
	}
	for i, c := range t.Conns {
		c.PacketRange = rangeOf(b.rowConn, rows, i)
		c.OpRange = rangeOf(b.opConn, ops, i)
		c.SampleRange = rangeOf(b.sampleConn, samples, i)
		t.judge(c)
	}
	b.finishCalls()
}

// order returns the rows sorted by their connections, and by less within each.
func order(conn []uint32, less func(i, j uint32) int) []uint32 {
	rows := make([]uint32, len(conn))
	sorted := true
	for i := range rows {
		rows[i] = uint32(i)
		sorted = sorted && (i == 0 || conn[i-1] < conn[i] ||
			conn[i-1] == conn[i] && less(uint32(i-1), uint32(i)) <= 0)
	}
	if !sorted {
		slices.SortStableFunc(rows, func(i, j uint32) int {
			return cmp.Or(cmp.Compare(conn[i], conn[j]), less(i, j))
		})
	}
	return rows
}

// pick returns the values in an order.
func pick[T any](v []T, rows []uint32) []T {
	out := make([]T, len(rows))
	for i, r := range rows {
		out[i] = v[r]
	}
	return out
}

// rangeOf returns the sorted rows of a connection.
func rangeOf(conn, rows []uint32, c int) [2]int {
	from, _ := slices.BinarySearchFunc(rows, c, func(r uint32, c int) int {
		return cmp.Compare(int(conn[r]), c)
	})
	to, _ := slices.BinarySearchFunc(rows, c+1, func(r uint32, c int) int {
		return cmp.Compare(int(conn[r]), c)
	})
	return [2]int{from, to}
}
