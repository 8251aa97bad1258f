// SPDX-License-Identifier: BSD-2-Clause

package rdmap

import (
	"bytes"
	"testing"

	"verbena/ib"
	wire "verbena/internal/wire/iwarp"
)

// counted has segments of 1,024 bytes of payload.
func counted(o *options) { o.mss = 1460 }

// readTo puts bytes of a stream into the pieces of memory, as a read does, and returns how many.
func readTo(iov [][]byte, b []byte, most int) int {
	b = b[:min(len(b), most)]
	n := len(b)
	for i := 0; len(b) > 0; i++ {
		b = b[copy(iov[i], b):]
	}
	return n
}

// Segments that are announced are read with the first of their message, in one read of any length.
// Nothing is written behind the message.
func TestCountedSegments(t *testing.T) {
	const size, length, at, from = 1024, 4*1024 + 300, 5000, 100_000
	for name, c := range map[string]struct {
		head int
		post func(a, b *end) (sender, target *end)
	}{
		"SEND": {wire.UntaggedBytes, func(a, b *end) (*end, *end) {
			b.postRecv(1, b.sge(at, 1500), b.sge(at+1500, length-1500))
			a.post(a.send(from, length))
			return a, b
		}},
		"WRITE": {wire.TaggedBytes, func(a, b *end) (*end, *end) {
			a.post(a.write(from, length, b, at))
			return a, b
		}},
		"READ": {wire.TaggedBytes, func(a, b *end) (*end, *end) {
			a.post(a.read(at, length, b, from))
			b.take(a.out, whole, never)
			return b, a
		}},
	} {
		gap := wire.CRCBytes + wire.LengthBytes + c.head + 3&-(wire.LengthBytes+c.head+size)
		for most := 0; most < 4*size+3*gap+40; most += 41 {
			a, b := pair(t, counted)
			a.fill(from, length, 1)
			b.fill(from, length, 1)
			x, y := c.post(a, b)
			stream := x.out
			x.out = nil
			head := wire.LengthBytes + c.head
			y.take(stream[:head], whole, never)
			iov, n := y.s.Place(nil, y.gaps[:])
			if n != 4*size+3*gap {
				t.Fatalf("%s: room for %d bytes", name, n)
			}
			n = readTo(iov, stream[head:], min(most, n))
			y.s.HandlePlaced(0, iov, n)
			y.freed()
			y.take(stream[head+n:], whole, always)
			y.wantBytes(name, at, x.bytes[from:from+length])
			y.wantUntouched(name, at+length, 2*size)
			if most > size && y.s.Counters()[PlacedDirect] < size {
				t.Errorf("%s: %d bytes without a copy", name, y.s.Counters()[PlacedDirect])
			}
			switch name {
			case "SEND":
				y.wantRecv(name, 1, ib.WCSuccess)
			case "READ":
				y.wantWC(name, 1, ib.WCSuccess)
			}
		}
	}
}

// A message is cut into segments that are a power of two long. Each says how many follow, towards
// an end of our own kind alone.
func TestSegmentsAreCounted(t *testing.T) {
	for extensions, want := range map[bool][]wire.Control{
		true:  {{More: 15}, {More: 15}, {More: 14}, {More: 13}},
		false: {{}, {}, {}, {}},
	} {
		a, b := pair(t, counted, func(o *options) { o.extensions = extensions })
		b.postRecv(1, b.sge(0, 18<<10))
		a.post(a.send(0, 17<<10))
		all := ulpdus(t, a.out, true)
		for i, w := range want {
			h, p, _ := wire.ParseHeader(all[i])
			if h.More != w.More || extensions && len(p) != 1024 {
				t.Errorf("extensions %v: %d segments behind number %d of %d bytes", extensions, h.More, i, len(p))
			}
		}
		last, _, _ := wire.ParseHeader(all[len(all)-1])
		if last.More != 0 || !last.Last {
			t.Errorf("the last: %+v", last)
		}
	}
}

// more returns a header that says how many segments follow.
func more(h wire.Header, n uint8) wire.Header {
	h.More = n
	return h
}

// Where not all that is announced would fit, the first segment is read alone.
func TestCountedSegmentsThatDoNotFit(t *testing.T) {
	p := make([]byte, 1000)
	for name, c := range map[string]struct {
		change func(*options)
		post   func(a, b *end)
		h      func(a, b *end) wire.Header
	}{
		"receive": {counted, func(a, b *end) { b.postRecv(1, b.sge(0, 3999)) },
			func(a, b *end) wire.Header { return untaggedH(wire.Send, false, 0, 1, 0) }},
		"region": {counted, func(a, b *end) {},
			func(a, b *end) wire.Header { return tagged(wire.RDMAWrite, false, b.mr.RKey(), base+memBytes-3999) }},
		"READ": {counted, func(a, b *end) { b.post(b.read(0, 3999, a, 0)) },
			func(a, b *end) wire.Header { return tagged(wire.ReadResponse, false, b.mr.RKey(), base) }},
		"foreign": {func(o *options) { o.extensions = false }, func(a, b *end) { b.postRecv(1, b.sge(0, 9000)) },
			func(a, b *end) wire.Header { return untaggedH(wire.Send, false, 0, 1, 0) }},
	} {
		a, b := pair(t, c.change)
		a.take(nil, whole, never)
		b.take(segment(tagged(wire.RDMAWrite, true, 1, 0)), whole, never) // the peer has spoken
		c.post(a, b)
		s := segment(more(c.h(a, b), 3), p...)
		b.take(s[:len(s)-wire.CRCBytes-len(p)-wire.PadBytes(len(s)-wire.CRCBytes-wire.LengthBytes)], whole, never)
		iov, n := b.s.Place(nil, b.gaps[:])
		if n != len(p) {
			t.Errorf("%s: room for %d bytes", name, n)
		}
		b.s.HandlePlaced(0, iov, 0)
	}
}

// A SEND that ends before the bytes that it announced is refused: others may have been read behind
// it.
func TestCountedSendThatEndsEarly(t *testing.T) {
	for name, list := range map[string][]wire.Header{
		"at once": {more(untaggedH(wire.Send, true, 0, 1, 0), 1)},
		"later":   {more(untaggedH(wire.Send, false, 0, 1, 0), 2), untaggedH(wire.Send, true, 0, 1, 1000)},
	} {
		for _, direct := range []func() bool{never, always} {
			_, b := pair(t, counted)
			b.postRecv(1, b.sge(0, 9000))
			var s []byte
			for _, h := range list {
				s = append(s, segment(h, make([]byte, 1000)...)...)
			}
			s = append(s, segment(untaggedH(wire.Send, true, 0, 2, 0), make([]byte, 1000)...)...)
			b.takeHeadFirst(s, direct)
			b.wantRecv(name, 1, ib.WCWRFlushErr)
			b.wantTerminate(wire.RDMAPUnspecific)
			b.freed()
		}
	}
}

// takeHeadFirst is take of the bytes that a reader finds which knows no more than the first header.
func (e *end) takeHeadFirst(b []byte, direct func() bool) {
	const head = wire.LengthBytes + wire.UntaggedBytes
	e.take(b[:head], whole, never)
	e.take(b[head:], whole, direct)
}

// Where another segment comes than was announced its bytes are taken back from the memory that they
// were read to.
func TestCountedSegmentsThatDoNotCome(t *testing.T) {
	p := bytes.Repeat([]byte{7}, 1000)
	terminate := segment(untaggedH(wire.Terminate, true, wire.QNTerminate, 1, 0), wire.TermMsg{TermError: wire.RDMAPLocalCatastrophic}.Append(nil)...)
	for name, c := range map[string]struct {
		next []byte
		want func(b *end)
	}{
		"Terminate": {terminate, func(b *end) {
			b.wantRecv("first", 1, ib.WCWRFlushErr)
			b.wantState("told", ib.QPErr)
			if n := b.s.Counters()[RcvdTerminate]; n != 1 {
				t.Errorf("%d Terminates", n)
			}
		}},
		"a SEND": {segment(untaggedH(wire.Send, true, 0, 1, 0), p...), func(b *end) {
			if wc := b.wantRecv("SEND", 1, ib.WCSuccess); wc.ByteLen != 1000 {
				t.Errorf("%d bytes", wc.ByteLen)
			}
			b.wantBytes("SEND", 50_000, p)
		}},
		"a bad CRC": {append(segment(untaggedH(wire.Send, true, 0, 1, 0), p...), 1, 2, 3), nil},
	} {
		_, b := pair(t, counted)
		b.postRecv(1, b.sge(50_000, 2000))
		first := segment(more(tagged(wire.RDMAWrite, false, b.mr.RKey(), base), 3), p...)
		if c.want == nil {
			first[len(first)-1] ^= 1
			c.want = func(b *end) { b.wantTerminate(wire.MPACRCError) }
		}
		head := wire.LengthBytes + wire.TaggedBytes
		b.take(first[:head], whole, never)
		all := append(first[head:], c.next...)
		iov, n := b.s.Place(nil, b.gaps[:])
		if n < 4*len(p) {
			t.Fatalf("%s: room for %d bytes", name, n)
		}
		b.s.HandlePlaced(0, iov, readTo(iov, all, n))
		b.freed()
		b.pump()
		c.want(b)
	}
}

// A key that goes during a message of counted segments ends it, and no memory stays held.
func TestCountedSegmentsOfAKeyThatGoes(t *testing.T) {
	a, b := pair(t, counted)
	a.post(a.write(0, 8192, b, 0))
	stream, head := a.out, wire.LengthBytes+wire.TaggedBytes
	b.take(stream[:head], whole, never)
	iov, n := b.s.Place(nil, b.gaps[:])
	n = readTo(iov, stream[head:], n)
	b.s.Modify(0, &ib.QPAttr{AccessFlags: ib.AccessLocalWrite}, ib.QPAccessFlags)
	b.s.HandlePlaced(0, iov, n)
	b.freed()
	b.wantTerminate(wire.RDMAPAccess)
}
