// SPDX-License-Identifier: BSD-2-Clause

package rdmap

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"testing"

	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/queue"
	wire "verbena/internal/wire/iwarp"
)

// A victim has memory for WRITEs, for receives and for the answers to READs, between guards.
type victim struct {
	*end
	areas   [3][]byte // with their guards
	regions [3]*mem.Region
}

const (
	areaBytes  = 64 << 10
	guardBytes = 8 << 10

	lieRecvs, lieRecvBytes = 5, 12_000
	lieReads, lieReadBytes = 4, 16_000
)

func areaAt(i int) uint64 { return uint64(i+1) << 24 }

func newVictim(t *testing.T, crc bool) *victim {
	o := defaults()
	o.crc, o.ord = crc, lieReads
	v := &victim{end: newEnd(t, "bb", o, false)}
	for i, access := range []ib.Access{ib.AccessRemoteWrite, 0, 0} {
		v.areas[i] = bytes.Repeat([]byte{untouched}, areaBytes+2*guardBytes)
		var err error
		v.regions[i], err = v.table.Register(pd, v.areas[i][guardBytes:guardBytes+areaBytes], areaAt(i), access|ib.AccessLocalWrite)
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range lieRecvs {
		at, key := areaAt(1)+uint64(i*lieRecvBytes), v.regions[1].LKey()
		v.postRecv(uint64(i), ib.SGE{Addr: at, Length: 3001, LKey: key}, ib.SGE{Addr: at + 3001, Length: lieRecvBytes - 3001, LKey: key})
	}
	v.take(segment(tagged(wire.RDMAWrite, true, 1, 0)), whole, never) // the peer has spoken
	for i := range lieReads {
		v.post(queue.SendWQE{Opcode: ib.WRRDMARead, Length: lieReadBytes, RemoteAddr: base, RKey: 1,
			SGE: []ib.SGE{{Addr: areaAt(2) + uint64(i*lieReadBytes), Length: lieReadBytes, LKey: v.regions[2].LKey()}}})
	}
	v.out = nil
	return v
}

// liar makes the stream of a peer whose segments announce others that may not come.
type liar struct {
	*rand.Rand
	crc bool
	out []byte

	recvs, recvAt int // of the SEND under way
	reads, readAt int // of the answer under way
	writeAt       uint64
}

func (l *liar) add(h wire.Header, announced, payload int) {
	h.More = uint8(announced)
	b := h.Append(nil)
	for range payload {
		b = append(b, byte(l.Uint32()))
	}
	l.out = wire.AppendFPDU(l.out, b, l.crc)
}

// stream mixes SENDs, WRITEs and answers to READs. One segment in so many as lies says is something
// else. With 0 all are legal, apart from their announcements.
func (l *liar) stream(v *victim, lies int) []byte {
	l.writeAt = areaAt(0)
	kind, size := 0, 1024
	for len(l.out) < 100<<10 {
		if l.IntN(6) == 0 {
			kind, size = l.IntN(3), []int{0, 100, 520, 1000, 1001, 1024, 2048, 3000}[l.IntN(8)]
		}
		announced := l.IntN(8) * l.IntN(2)
		if lies > 0 && l.IntN(lies) == 0 {
			l.lie(v, announced, size)
			continue
		}
		switch {
		case kind == 0 && l.recvs < lieRecvs:
			n := min(size, lieRecvBytes-l.recvAt)
			last := l.recvAt+n == lieRecvBytes || l.IntN(4) == 0
			l.add(untaggedH(wire.Send, last, 0, uint32(l.recvs+1), uint32(l.recvAt)), announced, n)
			if l.recvAt += n; last {
				l.recvs, l.recvAt = l.recvs+1, 0
			}
		case kind == 1 && l.reads < lieReads:
			n := min(size, lieReadBytes-l.readAt)
			last := l.readAt+n == lieReadBytes
			at := areaAt(2) + uint64(l.reads*lieReadBytes+l.readAt)
			l.add(tagged(wire.ReadResponse, last, v.regions[2].RKey(), at), announced, n)
			if l.readAt += n; last {
				l.reads, l.readAt = l.reads+1, 0
			}
		default:
			n := min(size, int(areaAt(0)+areaBytes-l.writeAt))
			l.add(tagged(wire.RDMAWrite, l.IntN(4) == 0, v.regions[0].RKey(), l.writeAt), announced, n)
			if l.writeAt += uint64(n); n < size || l.IntN(8) == 0 {
				l.writeAt = areaAt(0) + uint64(l.IntN(areaBytes))
			}
		}
	}
	return l.out
}

func (l *liar) lie(v *victim, announced, size int) {
	switch l.IntN(5) {
	case 0:
		h := untaggedH(wire.Opcode(l.IntN(16)), l.IntN(2) == 0, uint32(l.IntN(5)), uint32(l.recvs+l.IntN(3)), uint32(l.recvAt+l.IntN(2)*size))
		l.add(h, announced, size)
	case 1:
		h := tagged(wire.Opcode(l.IntN(3)), l.IntN(2) == 0, v.regions[l.IntN(3)].RKey(), areaAt(l.IntN(3))+uint64(l.IntN(areaBytes)))
		l.add(h, announced, size)
	case 2:
		l.out = wire.AppendFPDU(l.out, make([]byte, l.IntN(20)), l.crc)
	case 3:
		h := untaggedH(wire.Terminate, true, wire.QNTerminate, 1, 0)
		l.out = wire.AppendFPDU(l.out, wire.TermMsg{TermError: wire.RDMAPLocalCatastrophic}.Append(h.Append(nil)), l.crc)
	case 4:
		if len(l.out) > 0 {
			l.out[len(l.out)-1-l.IntN(min(len(l.out), 3000))] ^= 1 << l.IntN(8)
		}
	}
}

// takeAsTransport reads a stream where Place says, as the transport does, by reads of random
// lengths.
func (v *victim) takeAsTransport(b []byte, rnd *rand.Rand) {
	for len(b) > 0 {
		iov, placed := v.s.Place(nil, v.gaps[:])
		pieces := len(iov)
		ahead := make([]byte, max(v.s.Rest()-placed, 0)+wire.UntaggedBytes)
		n := readTo(append(iov, ahead), b, 1+rnd.IntN(placed+len(ahead)))
		b = b[n:]
		if placed > 0 {
			v.s.HandlePlaced(v.now, iov[:pieces], min(n, placed))
		}
		if n > placed {
			v.s.HandleInput(v.now, ahead[:n-placed])
		}
	}
	v.pump()
}

// seen is all that a program and the peer learn.
type seen struct {
	sends, recvs []ib.WC
	state        ib.QPState
	out          []byte
	counts       Counters
}

func (v *victim) seen() seen {
	s := seen{v.sends.list, v.recvs.list, v.s.State(), v.out, *v.s.Counters()}
	s.counts[PlacedDirect] = 0
	return s
}

// However a stream is read, and whatever its segments announce, the same completions, answers and
// counts follow. No byte is written outside granted memory, and none is left held.
func TestCountsOfALyingPeer(t *testing.T) {
	for seed := range uint64(100) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		crc, lies := rnd.IntN(2) == 0, []int{0, 100, 30, 10}[rnd.IntN(4)]
		plain := newVictim(t, crc)
		stream := (&liar{Rand: rnd, crc: crc}).stream(plain, lies)
		plain.take(stream, whole, never)
		want := plain.seen()
		for way, read := range []func(v *victim){
			func(v *victim) { v.take(stream, random(rnd), func() bool { return rnd.IntN(3) > 0 }) },
			func(v *victim) { v.takeAsTransport(stream, rnd) },
		} {
			v := newVictim(t, crc)
			read(v)
			if got := v.seen(); !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d, way %d, one lie in %d: %+v\nwant %+v", seed, way, lies, got, want)
			}
			v.wantIntact(plain, want)
			for _, r := range append(v.regions[:], v.mr) {
				if !r.Idle() {
					t.Fatalf("seed %d, way %d: memory is held", seed, way)
				}
			}
		}
	}
}

// wantIntact compares the bytes of successful operations, and the guards.
func (v *victim) wantIntact(plain *victim, s seen) {
	v.t.Helper()
	guard := bytes.Repeat([]byte{untouched}, guardBytes)
	for i, area := range v.areas {
		if !bytes.Equal(area[:guardBytes], guard) || !bytes.Equal(area[guardBytes+areaBytes:], guard) {
			v.fatalf("bytes outside area %d were written", i)
		}
	}
	compare := func(area, bytesOfEach int, list []ib.WC) {
		for i, wc := range list {
			from := guardBytes + i*bytesOfEach
			if wc.Status == ib.WCSuccess && !bytes.Equal(v.areas[area][from:from+bytesOfEach], plain.areas[area][from:from+bytesOfEach]) {
				v.fatalf("other bytes than those sent in part %d of area %d", i, area)
			}
		}
	}
	compare(1, lieRecvBytes, s.recvs)
	compare(2, lieReadBytes, s.sends)
}
