// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"

	"verbena/ib"
	"verbena/internal/mem"
	wire "verbena/internal/wire/roce"
)

var burstPath = NewPath(netip.MustParseAddr("192.0.2.1"), 0xc001, &ib.GRH{DGID: ib.GIDFromAddr(netip.MustParseAddr("192.0.2.2"))})

// packet is a SEND Only of n bytes for a burst.
func packet(n int) (size int, h wire.BTH) {
	h = wire.BTH{Opcode: wire.RCSendOnly, PKey: ib.DefaultPKey, DestQP: 1, Pad: wire.PadBytes(n)}
	return wire.BTHBytes + n + int(h.Pad) + wire.ICRCBytes, h
}

func table(t *testing.T, buf []byte) (*mem.Table, *mem.Region) {
	t.Helper()
	seed := uint32(1)
	tab := mem.NewTable(func() uint32 { seed = seed*1664525 + 1013904223; return seed })
	r, err := tab.Register(1, buf, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	return tab, r
}

// A burst is cut into datagrams of one size, the last may be shorter. The ICRC of each is right for
// its place in the burst.
func TestBurst(t *testing.T) {
	buf := make([]byte, 8192)
	for i := range buf {
		buf[i] = byte(i * 7)
	}
	tab, r := table(t, buf)
	b := NewBurst()
	for _, n := range []int{1000, 1000, 998, 999, 3} { // 998 and 999 are as long as 1000 with their pad
		size, h := packet(n)
		if !b.Begin(burstPath, size, h) {
			t.Fatalf("%d bytes do not fit", n)
		}
		// Three pieces: copied, by reference where it pays, copied.
		s, v := tab.Local(1, ib.SGE{Addr: 5, Length: uint32(n), LKey: r.LKey()}, 0)
		if v != ib.VendorNone {
			t.Fatal(v)
		}
		cut := min(n, 2)
		b.Copy(buf[5 : 5+cut])
		b.Span(s, cut, n-cut)
		b.End()
	}
	if !b.Full() {
		t.Error("open after a shorter datagram")
	}
	if size, h := packet(3); b.Begin(burstPath, size, h) {
		t.Error("took a datagram after a shorter one")
	}
	b.Seal()
	all := bytes.Join(b.Iov(), nil)
	if len(all) != b.Bytes() || b.Len() != 5 {
		t.Fatalf("%d bytes, %d said, %d datagrams", len(all), b.Bytes(), b.Len())
	}
	for i, n := range []int{1000, 1000, 998, 999, 3} {
		raw := all[:min(len(all), b.SegmentBytes())]
		all = all[len(raw):]
		var p wire.Packet
		if m := p.Parse(raw); m != wire.WellFormed || !burstPath.Pseudo.VerifyWithID(raw, uint16(i)) {
			t.Errorf("datagram %d: %v, or a wrong ICRC", i, m)
		}
		if !bytes.Equal(p.Payload, buf[5:5+n]) {
			t.Errorf("datagram %d: payload differs", i)
		}
	}
	if r.Idle() {
		t.Error("memory is pointed at and not held")
	}
	b.Reset()
	if !r.Idle() || b.Len() != 0 || b.Full() {
		t.Error("not empty after Reset")
	}
}

// A datagram taken back leaves no trace: neither one that was copied nor one
// that is pointed at, as the first or behind others.
func TestBurstAbort(t *testing.T) {
	buf := make([]byte, 8192)
	for i := range buf {
		buf[i] = byte(i * 7)
	}
	tab, r := table(t, buf)
	b := NewBurst()
	add := func(n int, keep bool) {
		size, h := packet(n)
		if !b.Begin(burstPath, size, h) {
			t.Fatalf("%d bytes do not fit", n)
		}
		s, v := tab.Local(1, ib.SGE{Length: uint32(n), LKey: r.LKey()}, 0)
		if v != ib.VendorNone {
			t.Fatal(v)
		}
		if !b.Spans([]mem.Span{s}) {
			t.Fatal("memory is there and was not read")
		}
		if keep {
			b.End()
		} else {
			b.Abort()
		}
	}
	burst := func(abort bool) []byte {
		b.Reset()
		for _, n := range []int{1000, 1000, 100} {
			for _, gone := range []int{1000, 40} {
				if abort && (b.Len() > 0 || gone == 1000) {
					add(gone, false)
				}
			}
			add(n, true)
		}
		b.Seal()
		return bytes.Join(b.Iov(), nil)
	}
	want := burst(false)
	if got := burst(true); !bytes.Equal(got, want) || b.Len() != 3 || b.Bytes() != len(want) {
		t.Errorf("%d datagrams of %d bytes, want 3 of %d, or they differ", b.Len(), b.Bytes(), len(want))
	}
	b.Reset()
	add(1000, false)
	if !r.Idle() || b.Len() != 0 || len(b.Iov()) != 0 {
		t.Error("something of the only datagram is left")
	}
}

// A packet that does not fit is refused and changes nothing.
func TestBurstRefuses(t *testing.T) {
	other := NewPath(burstPath.Src, 0xc002, &ib.GRH{DGID: ib.GIDFromAddr(burstPath.Dst)})
	b := NewBurst()
	add := func(path *Path, n int) bool {
		size, h := packet(n)
		if !b.Begin(path, size, h) {
			return false
		}
		b.Copy(make([]byte, n))
		b.End()
		return true
	}
	if !add(burstPath, 100) || add(other, 100) || add(burstPath, 104) || !add(burstPath, 100) {
		t.Error("another path or a longer datagram joined")
	}
	b.Reset()
	b.Limit(1)
	if !add(burstPath, 100) || !b.Full() || add(burstPath, 100) {
		t.Error("more datagrams than the limit")
	}
	b.Reset()
	b.Limit(MaxSegments)
	n := 0
	for add(burstPath, 4096) {
		n++
	}
	if b.Bytes() > MaxBurstBytes || n != MaxBurstBytes/(4096+wire.BTHBytes+wire.ICRCBytes) {
		t.Errorf("%d datagrams of %d bytes in all", n, b.Bytes())
	}
	b.Reset()
	for n = 0; add(burstPath, 0); n++ {
	}
	if n != MaxSegments {
		t.Errorf("%d datagrams", n)
	}
}

// A burst into memory has packets of the same form without ICRC, and points at
// nothing; the next one is as others are.
func TestBurstIntoMemory(t *testing.T) {
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprintf("stream=%v", stream), func(t *testing.T) { burstIntoMemory(t, stream) })
	}
}

func burstIntoMemory(t *testing.T, stream bool) {
	buf := make([]byte, 4096)
	for i := range buf {
		buf[i] = byte(i * 7 >> 3)
	}
	tab, r := table(t, buf)
	b := NewBurst()
	memory := make([]byte, 10000)
	b.Into(memory, stream)
	for i, n := range []int{4096, 4096, copyBelow} {
		buf[7] = byte(i)
		s, v := tab.Local(1, ib.SGE{Length: uint32(n), LKey: r.LKey()}, 0)
		if v != ib.VendorNone {
			t.Fatal(v)
		}
		size, h := packet(n)
		if !b.Begin(burstPath, size, h) || !b.Span(s, 0, n) {
			t.Fatalf("%d bytes do not fit", n)
		}
		if i == 1 {
			b.Abort()
			continue
		}
		b.End()
	}
	if !r.Idle() {
		t.Error("memory is pointed at")
	}
	b.closed = false
	if size, h := packet(4096); !b.Begin(burstPath, size, h) {
		t.Error("what fits is not taken")
	} else if b.Abort(); b.Begin(burstPath, 5400, h) {
		t.Error("took more than there is memory")
	}
	all := memory[:b.Bytes()]
	for i, want := range []byte{0, 2} {
		raw := all[:min(len(all), b.SegmentBytes())]
		all = all[len(raw):]
		var p wire.Packet
		if m := p.Parse(raw); m != wire.WellFormed || p.ICRC != 0 || p.Payload[7] != want || !bytes.Equal(p.Payload[8:], buf[8:len(p.Payload)]) {
			t.Errorf("datagram %d: %v, ICRC %#x, byte %d", i, m, p.ICRC, p.Payload[7])
		}
	}
	clear(memory)
	b.Reset()
	size, h := packet(4)
	b.Begin(burstPath, size, h)
	b.Copy(buf[:4])
	b.End()
	b.Seal()
	if !burstPath.Pseudo.VerifyWithID(bytes.Join(b.Iov(), nil), 0) || !bytes.Equal(memory, make([]byte, len(memory))) {
		t.Error("the burst after one into memory has no ICRC, or is there too")
	}
}

// The datagrams of several queue pairs make one burst where they go the same way and are of one
// size. Each machine sees only those of its turn.
func TestBurstOfSeveralQueuePairs(t *testing.T) {
	sameWay := *burstPath
	otherPort := NewPath(burstPath.Src, 0xc002, &ib.GRH{DGID: ib.GIDFromAddr(burstPath.Dst)})
	otherClass := burstPath.WithECN(ECT0)
	b := NewBurst()
	turn := func(path *Path, q ib.QPN, sizes ...int) (taken int) {
		b.NextTurn()
		for _, n := range sizes {
			size, h := packet(n)
			h.DestQP = q
			if b.Begin(path, size, h) {
				b.Copy(make([]byte, n))
				b.End()
				taken++
			}
		}
		if b.Len() != taken || b.Packets() != taken || b.Refused() != (taken < len(sizes)) {
			t.Errorf("a turn of %d datagrams has %d, %d packets, refused %t", taken, b.Len(),
				b.Packets(), b.Refused())
		}
		return taken
	}
	for i, o := range []struct {
		path  *Path
		q     ib.QPN
		sizes []int
		want  int
	}{
		{burstPath, 1, []int{100, 100}, 2},
		{&sameWay, 2, []int{100}, 1},
		{&sameWay, 3, nil, 0},
		{otherPort, 4, []int{100}, 0},
		{otherClass, 4, []int{100}, 0},
		{&sameWay, 5, []int{104}, 0},     // longer
		{&sameWay, 6, []int{96}, 0},      // would end the burst for others
		{burstPath, 7, []int{100, 8}, 2}, // ends it
		{burstPath, 8, []int{100}, 0},
	} {
		if got := turn(o.path, o.q, o.sizes...); got != o.want {
			t.Errorf("turn %d: %d datagrams taken, want %d", i, got, o.want)
		}
	}
	b.Seal()
	all := bytes.Join(b.Iov(), nil)
	for i, want := range []ib.QPN{1, 1, 2, 7, 7} {
		raw := all[:min(len(all), b.SegmentBytes())]
		all = all[len(raw):]
		var p wire.Packet
		if m := p.Parse(raw); m != wire.WellFormed || p.DestQP != want ||
			!burstPath.Pseudo.VerifyWithID(raw, uint16(i)) {
			t.Errorf("datagram %d: %v, for %v, or a wrong ICRC", i, m, p.DestQP)
		}
	}
	if len(all) != 0 {
		t.Errorf("%d bytes more", len(all))
	}
}

// The longest message of a turn is one of its own, also where an earlier turn has begun it.
func TestBurstKnowsItsLongestMessage(t *testing.T) {
	const first, middle, last, only = wire.RCSendFirst, wire.RCSendMiddle, wire.RCSendLast, wire.RCSendOnly
	b := NewBurst()
	for _, turn := range []struct {
		opcodes []wire.Opcode
		longest int // packets
	}{
		{[]wire.Opcode{only, only, only, only}, 1},
		{[]wire.Opcode{first, last, first, middle, last, only, first, last}, 3},
		{nil, 0},
		{[]wire.Opcode{middle, last, only}, 2},
	} {
		b.NextTurn()
		size, h := packet(100)
		for _, h.Opcode = range turn.opcodes {
			if !b.Begin(burstPath, size, h) {
				t.Fatal("no room")
			}
			b.Copy(make([]byte, 100))
			b.End()
		}
		if b.Longest() != turn.longest*size {
			t.Errorf("%v: %d bytes, want %d", turn.opcodes, b.Longest(), turn.longest*size)
		}
	}
	if b.Reset(); b.Longest() != 0 {
		t.Errorf("empty: %d bytes", b.Longest())
	}
}
