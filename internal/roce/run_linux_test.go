// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"fmt"
	"testing"

	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/testkit/pages"
	wire "verbena/internal/wire/roce"
)

// A run from memory that has gone, or is in pieces, changes nothing.
func TestRunRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		gone bool
		list [][]byte
	}{
		{"gone", true, nil},
		{"in pieces", false, [][]byte{make([]byte, 1024), make([]byte, 1024)}},
	} {
		buf := pages.New(t, 1)
		tab, r := table(t, buf)
		if c.list != nil {
			var err error
			if r, err = fast(tab, c.list); err != nil {
				t.Fatal(err)
			}
		}
		s, v := tab.Local(1, ib.SGE{Length: 2048, LKey: r.LKey()}, 0)
		if v != ib.VendorNone {
			t.Fatal(v)
		}
		if c.gone {
			buf.Unmap(t, 0, 1)
		}
		b := NewBurst()
		if b.Run(burstPath, wire.BTH{Opcode: wire.RCSendMiddle}, wire.RETH{}, s, 1024, 2) != 0 {
			t.Errorf("%s: a run", c.name)
		}
		s.Release()
		if b.Seal(); b.Len() != 0 || len(b.Iov()) != 0 || !r.Idle() {
			t.Errorf("%s: %d datagrams, %d pieces of memory", c.name, b.Len(), len(b.Iov()))
		}
	}
}

// Memory in pieces has a run in each, however the message starts. Where the pieces have no room for
// that, two runs of a burst are refused and no more.
func TestRunsOfPieces(t *testing.T) {
	const n = 60
	for _, c := range []struct{ page, payload, from, runs, refused int }{
		{4096, 1024, 0, 15, 0},
		{4096, 1024, 512, 15, 0},
		{4096, 1024, 2048, 14, 1},
		{4096, 2048, 0, 1, 2},
		{4096, 4096, 0, 0, 2},
		{1500, 1024, 0, 0, 2},
	} {
		var list [][]byte
		for range n*c.payload/c.page + 2 {
			list = append(list, make([]byte, c.page))
		}
		tab, _ := table(t, list[0])
		r, err := fast(tab, list)
		if err != nil {
			t.Fatal(err)
		}
		open := func(i, k int) mem.Span {
			s, v := tab.Local(1, ib.SGE{Addr: uint64(c.from + i*c.payload), Length: uint32(k * c.payload), LKey: r.LKey()}, 0)
			if v != ib.VendorNone {
				t.Fatal(v)
			}
			return s
		}
		b := NewBurst()
		runs, refused := 0, 0
		h := wire.BTH{Opcode: wire.RCSendMiddle, DestQP: 9}
		for i := 0; i < n; {
			if !b.Begin(burstPath, wire.BTHBytes+c.payload+wire.ICRCBytes, h) {
				break // full
			}
			if !b.Span(open(i, 1), 0, c.payload) {
				t.Fatal("no datagram")
			}
			b.End()
			i++
			room := min(b.RunRoom(burstPath, 9, wire.BTHBytes, c.payload), n-i)
			if room < 2 {
				continue
			}
			s := open(i, room)
			if k := b.Run(burstPath, h, wire.RETH{}, s, c.payload, room); k > 0 {
				i += k
				runs++
			} else {
				s.Release()
				refused++
			}
		}
		if runs != c.runs || refused != c.refused {
			t.Errorf("pages of %d, payload of %d from %d on: %d runs and %d refused, want %d and %d",
				c.page, c.payload, c.from, runs, refused, c.runs, c.refused)
		}
		if b.Reset(); b.RunRoom(burstPath, 9, wire.BTHBytes, c.payload) < 2 || !r.Idle() {
			t.Error("no runs, or memory held, after Reset")
		}
	}
}

// fast returns a region in pieces.
func fast(tab *mem.Table, list [][]byte) (*mem.Region, error) {
	r, err := tab.AllocFast(1, len(list))
	if err != nil {
		return nil, err
	}
	if n, err := r.Map(list, 0); n != len(list) || err != nil {
		return nil, fmt.Errorf("%d pieces: %w", n, err)
	}
	if v := tab.FastRegister(1, r, r.RKey(), 0); v != ib.VendorNone {
		return nil, fmt.Errorf("%v", v)
	}
	return r, nil
}
