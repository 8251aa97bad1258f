// SPDX-License-Identifier: BSD-2-Clause

package mpa

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/testkit/stream"
	wire "verbena/internal/wire/iwarp"
)

const base = 0x10000

// region is registered memory with a pattern in it.
type region struct {
	table *mem.Table
	mr    *mem.Region
	bytes []byte
}

func newRegion(t testing.TB, n int) *region {
	seed := uint32(1)
	r := &region{table: mem.NewTable(func() uint32 { seed = seed*1664525 + 1013904223; return seed }), bytes: make([]byte, n)}
	for i := range r.bytes {
		r.bytes[i] = byte(i*7 + i>>8)
	}
	var err error
	if r.mr, err = r.table.Register(1, r.bytes, base, ib.AccessLocalWrite); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *region) span(t testing.TB, off, n int) mem.Span {
	s, v := r.table.Local(1, ib.SGE{Addr: base + uint64(off), Length: uint32(n), LKey: r.mr.LKey()}, 0)
	if v != ib.VendorNone {
		t.Fatal(v)
	}
	return s
}

// deframe takes a stream apart, cut into pieces by cut, and returns the ULPDUs
// and the last event.
func deframe(d *Deframer, b []byte, cut func(left int) int) (ulpdus [][]byte, last Event) {
	var u []byte
	for len(b) > 0 {
		k := cut(len(b))
		piece := b[:k]
		b = b[k:]
		for {
			ev, data, rest := d.Next(piece)
			piece = rest
			switch ev {
			case Started:
				u = nil
			case Data:
				u = append(u, data...)
			case Ended:
				ulpdus = append(ulpdus, append([]byte{}, u...))
			case BadCRC, BadMarker:
				return ulpdus, ev
			}
			if last = ev; ev == NeedMore {
				break
			}
		}
	}
	return ulpdus, last
}

func whole(n int) int { return n }

// stuff makes a stream of ULPDUs, some of memory pointed at, and returns both.
func stuff(t testing.TB, f *Framer, rnd *rand.Rand, n int) (ulpdus [][]byte, out []byte) {
	r := newRegion(t, 1<<17)
	b := NewBurst()
	for range n {
		head := make([]byte, 2+rnd.IntN(60))
		for i := range head {
			head[i] = byte(rnd.Uint32())
		}
		size := rnd.IntN(3000)
		switch rnd.IntN(8) {
		case 0:
			head, size = nil, 0
		case 1:
			size = 60000 + rnd.IntN(wire.MaxULPDUFor(1<<16, f.Markers)-60000-len(head))
		}
		p := Payload{Size: size, Volatile: rnd.IntN(2) == 0}
		off := rnd.IntN(1000)
		if size > 0 && rnd.IntN(3) > 0 {
			first := size / 3
			p.Spans = []mem.Span{r.span(t, off, first), r.span(t, off+first, size-first)}
		} else {
			p.Bytes = r.bytes[off : off+size]
		}
		v := f.Append(b, head, &p)
		if v == Full {
			out = append(out, bytes.Join(b.Iov(), nil)...)
			b.Reset()
			v = f.Append(b, head, &p)
		}
		if v != Added {
			t.Fatalf("verdict %d for %d bytes", v, len(head)+size)
		}
		ulpdus = append(ulpdus, append(append([]byte{}, head...), r.bytes[off:off+size]...))
	}
	if got := bytes.Join(b.Iov(), nil); len(got) != b.Bytes() {
		t.Fatalf("%d bytes, the burst says %d", len(got), b.Bytes())
	}
	out = append(out, bytes.Join(b.Iov(), nil)...)
	b.Reset()
	if err := r.table.Deregister(r.mr); err != nil { // would wait for a span that was not given back
		t.Fatal(err)
	}
	return ulpdus, out
}

// TestRoundTrip frames and deframes, with and without CRCs and markers, whole
// and byte by byte and in random pieces.
func TestRoundTrip(t *testing.T) {
	for _, crc := range []bool{false, true} {
		for _, markers := range []bool{false, true} {
			t.Run(fmt.Sprintf("crc=%v,markers=%v", crc, markers), func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(1, 2))
				want, b := stuff(t, &Framer{CRC: crc, Markers: markers}, rnd, 60)
				for name, cut := range map[string]func(int) int{
					"whole":  whole,
					"single": func(int) int { return 1 },
					"random": func(n int) int { return 1 + rnd.IntN(min(n, 2000)) },
				} {
					d := &Deframer{CRC: crc, Markers: markers}
					got, _ := deframe(d, b, cut)
					if len(got) != len(want) || !d.Between() {
						t.Fatalf("%s: %d ULPDUs, want %d", name, len(got), len(want))
					}
					for i := range got {
						if !bytes.Equal(got[i], want[i]) {
							t.Fatalf("%s: ULPDU %d of %d bytes differs from %d bytes", name, i, len(got[i]), len(want[i]))
						}
					}
				}
			})
		}
	}
}

// TestFramerAgainstWire holds FPDUs without markers to the plain encoder.
func TestFramerAgainstWire(t *testing.T) {
	for _, crc := range []bool{false, true} {
		ulpdus, b := stuff(t, &Framer{CRC: crc}, rand.New(rand.NewPCG(3, 4)), 40)
		var want []byte
		for _, u := range ulpdus {
			want = wire.AppendFPDU(want, u, crc)
		}
		if !bytes.Equal(b, want) {
			t.Errorf("CRC %v: streams differ", crc)
		}
	}
}

// TestMarkers holds a stream with markers to RFC 5044, 4.3: one at the very
// beginning, one each 512 bytes, all telling the way back to the length.
func TestMarkers(t *testing.T) {
	b := NewBurst()
	f := &Framer{Markers: true, CRC: true}
	for _, n := range []int{1200, 500, 2} {
		if f.Append(b, bytes.Repeat([]byte{byte(n)}, n), &Payload{}) != Added {
			t.Fatal("does not fit")
		}
	}
	s := bytes.Join(b.Iov(), nil)
	// lengths at 4; then at 4+1208+2*4; then behind 508 more and a marker or two
	first := 4
	second := first + 1208 + 2*4
	for at, want := range map[int]int{0: 0, 512: 508, 1024: 1020, 1536: 1536 - second} {
		m, _, _ := wire.ParseMarker(s[at:])
		if int(m.FPDUPtr) != want || s[at] != 0 || s[at+1] != 0 {
			t.Errorf("marker at %d: %d, want %d", at, m.FPDUPtr, want)
		}
	}
	if n, _, _ := wire.ParseLength(s[second:]); n != 500 {
		t.Errorf("second length %d", n)
	}
	// The CRC of the first covers its marker in front and those inside.
	sum, _, _ := wire.ParseCRC(s[second-4:])
	if want := wire.UpdateCRC(0, s[:second-4]); sum != want {
		t.Errorf("CRC %#x, want %#x", sum, want)
	}
	for _, at := range []int{2, 512 + 3} { // FPDUPTR off by a bit
		bad := bytes.Clone(s)
		bad[at] ^= 4
		if _, ev := deframe(&Deframer{Markers: true, CRC: true}, bad, whole); ev != BadMarker {
			t.Errorf("marker wrong at %d: %d", at, ev)
		}
	}
}

// TestEveryBitCounts flips each bit of an FPDU: with CRCs none passes.
func TestEveryBitCounts(t *testing.T) {
	good := wire.AppendFPDU(nil, []byte("seventeen letters"), true)
	for bit := range len(good) * 8 {
		b := bytes.Clone(good)
		b[bit/8] ^= 1 << (bit % 8)
		b = append(b, make([]byte, 1<<16)...) // a longer length must find its bytes
		if got, ev := deframe(&Deframer{CRC: true}, b, whole); ev != BadCRC || len(got) != 0 {
			t.Errorf("bit %d: %d ULPDUs, event %d", bit, len(got), ev)
		}
	}
	bad := bytes.Clone(good)
	bad[5] ^= 1
	d := &Deframer{CRC: true}
	deframe(d, bad, whole)
	if ev, _, _ := d.Next(good); ev != NeedMore {
		t.Errorf("a dead stream goes on: %d", ev)
	}
}

// TestPlaced reads ULPDU bytes past the Deframer, straight to their place.
func TestPlaced(t *testing.T) {
	for _, markers := range []bool{false, true} {
		want, b := stuff(t, &Framer{CRC: true, Markers: markers}, rand.New(rand.NewPCG(5, 6)), 30)
		rnd := rand.New(rand.NewPCG(7, 8))
		d := &Deframer{CRC: true, Markers: markers}
		var got [][]byte
		var u []byte
		for len(b) > 0 {
			if n := d.Run(); n > 0 && rnd.IntN(4) > 0 {
				n = min(1+rnd.IntN(n), len(b))
				at := len(u)
				u = append(u, b[:n]...)
				if !d.Placed([][]byte{u[at : at+n/2], u[at+n/2:]}, n) {
					t.Fatal("memory is gone")
				}
				b = b[n:]
				continue
			}
			k := min(1+rnd.IntN(50), len(b))
			piece := b[:k]
			b = b[k:]
			for ev := Started; ev != NeedMore; {
				var data []byte
				switch ev, data, piece = d.Next(piece); ev {
				case Started:
					u = nil
				case Data:
					u = append(u, data...)
				case Ended:
					got = append(got, u)
				case BadCRC, BadMarker:
					t.Fatal(ev)
				}
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%d ULPDUs, want %d", len(got), len(want))
		}
		for i := range got {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("ULPDU %d differs", i)
			}
		}
	}
}

// TestCapturedStreams deframes recorded streams of siw.
func TestCapturedStreams(t *testing.T) {
	total := 0
	for _, c := range stream.LoadAll(t, "../../../testdata/captures") {
		for side, b := range c.Sent {
			_, rest, ok := wire.ParseMPAFrame(b)
			if !ok {
				continue
			}
			got, ev := deframe(&Deframer{}, rest, func(n int) int { return min(n, 977) })
			d := &Deframer{}
			deframe(d, rest, whole)
			if !c.Missing[side] && !d.Between() || ev != NeedMore {
				t.Errorf("%s: ends within an FPDU", c.Name)
			}
			total += len(got)
		}
	}
	if total < 250 {
		t.Errorf("%d FPDUs", total)
	}
}

// TestFramerIsFull says so before it overflows, and takes any ULPDU when empty.
func TestFramerIsFull(t *testing.T) {
	r := newRegion(t, wire.MaxULPDU)
	for _, f := range []*Framer{{}, {CRC: true}, {CRC: true, Markers: true}} {
		size := wire.MaxULPDUFor(1<<16, f.Markers) - 14
		for _, volatile := range []bool{false, true} {
			b := NewBurst()
			for n := 0; ; n++ {
				p := Payload{Spans: []mem.Span{r.span(t, 0, size)}, Size: size, Volatile: volatile}
				v := f.Append(b, make([]byte, 14), &p)
				if v == Full {
					p.Spans[0].Release()
					if n == 0 {
						t.Errorf("%+v: an empty burst is full", f)
					}
					break
				}
				if v != Added || n > MaxFPDUs {
					t.Fatalf("verdict %d after %d", v, n)
				}
			}
			if b.Bytes() > MaxBurstBytes+wire.MaxULPDU+4096 {
				t.Errorf("%d bytes", b.Bytes())
			}
			b.Reset()
		}
	}
	if err := r.table.Deregister(r.mr); err != nil {
		t.Fatal(err)
	}
}

// FuzzChunks deframes any bytes in one piece and in pieces: the same comes out.
func FuzzChunks(f *testing.F) {
	f.Add(wire.AppendFPDU(wire.AppendFPDU(nil, []byte("hello"), true), nil, true), uint64(3), true, false)
	b := NewBurst()
	fr := &Framer{Markers: true, CRC: true}
	fr.Append(b, make([]byte, 700), &Payload{})
	f.Add(bytes.Join(b.Iov(), nil), uint64(9), true, true)
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, uint64(1), false, false)
	f.Fuzz(func(t *testing.T, b []byte, seed uint64, crc, markers bool) {
		one := &Deframer{CRC: crc, Markers: markers}
		many := &Deframer{CRC: crc, Markers: markers}
		want, wantEv := deframe(one, b, whole)
		rnd := rand.New(rand.NewPCG(seed, 0))
		got, gotEv := deframe(many, b, func(n int) int { return 1 + rnd.IntN(min(n, 600)) })
		if len(got) != len(want) || one.Between() != many.Between() || wantEv != gotEv {
			t.Fatalf("%d ULPDUs then %d, in one piece %d then %d", len(got), gotEv, len(want), wantEv)
		}
		for i := range got {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("ULPDU %d differs", i)
			}
		}
	})
}

// TestFramingDoesNotAllocate holds the data path to it.
func TestFramingDoesNotAllocate(t *testing.T) {
	r := newRegion(t, 8192)
	b, f, d := NewBurst(), &Framer{CRC: true}, &Deframer{CRC: true}
	head := make([]byte, 14)
	spans := make([]mem.Span, 1)
	if n := testing.AllocsPerRun(100, func() {
		spans[0] = r.span(t, 0, 4096)
		f.Append(b, head, &Payload{Spans: spans, Size: 4096})
		for _, p := range b.Iov() {
			for ev := Started; ev != NeedMore; {
				ev, _, p = d.Next(p)
			}
		}
		b.Reset()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
