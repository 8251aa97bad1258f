// SPDX-License-Identifier: BSD-2-Clause

package rdmap

import (
	"bytes"
	"testing"

	"verbena/ib"
)

// TestPlaceIsHeld: memory that the reader was shown is held until it says that
// it is done, whatever happens meanwhile, and never longer.
func TestPlaceIsHeld(t *testing.T) {
	for name, meanwhile := range map[string]func(b *end){
		"nothing": func(b *end) {},
		"error":   func(b *end) { b.s.Modify(0, &ib.QPAttr{State: ib.QPErr}, ib.QPStateAttr) },
		"reset":   func(b *end) { b.s.Modify(0, &ib.QPAttr{State: ib.QPReset}, ib.QPStateAttr) },
		"close":   func(b *end) { b.s.HandleClose(0, true) },
	} {
		a, b := pair(t)
		b.postRecv(1, b.sge(0, 3000), b.sge(9000, 3000))
		a.fill(0, 5000, 1)
		a.post(a.send(0, 5000))
		b.s.HandleInput(0, a.out[:30])
		if !b.mr.Idle() {
			t.Fatalf("%s: held before it is shown", name)
		}
		iov, n := b.s.Place(nil, b.gaps[:])
		if n == 0 || b.mr.Idle() {
			t.Fatalf("%s: room for %d, not held", name, n)
		}
		meanwhile(b)
		if b.mr.Idle() {
			t.Errorf("%s: let go while the reader may write", name)
		}
		b.s.HandlePlaced(0, iov, 0) // nothing came
		b.freed()
		if name != "nothing" {
			if _, n := b.s.Place(nil, b.gaps[:]); n != 0 {
				t.Errorf("%s: room for %d", name, n)
			}
			continue
		}
		if _, again := b.s.Place(nil, b.gaps[:]); again != n {
			t.Errorf("room for %d, then for %d", n, again)
		}
		b.s.HandlePlaced(0, iov, copy(iov[0], a.out[30:130]))
		b.take(a.out[130:], whole, always)
		b.wantRecv("SEND", 1, ib.WCSuccess)
		b.wantBytes("first", 0, a.bytes[:3000])
		b.wantBytes("second", 9000, a.bytes[3000:5000])
		b.freed()
		if got := b.s.Counters()[PlacedDirect]; got < 1000 {
			t.Errorf("%d bytes without a copy", got)
		}
	}
}

// TestReadResponseMayChange: the peer or the application may write to the memory of a READ response
// between its CRC and the socket.
func TestReadResponseMayChange(t *testing.T) {
	a, b := pair(t)
	b.fill(0, 5000, 1)
	b.nothing = true
	a.post(a.read(0, 5000, b, 0))
	b.take(a.out, whole, never)
	a.out = nil
	b.s.PollOutput(0, b.burst)
	clear(b.bytes[:5000])
	a.take(bytes.Join(b.burst.Iov(), nil), whole, never)
	a.wantWC("READ", 1, ib.WCSuccess)
}

// TestManyElements: a message over many elements is placed element by
// element.
func TestManyElements(t *testing.T) {
	a, b := pair(t)
	src := a.fill(0, 4000, 3)
	var list []ib.SGE
	for i := range 8 {
		list = append(list, b.sge(i*1000, 500))
	}
	b.postRecv(1, list...)
	w := a.send(0, 4000)
	w.SGE = nil
	for i := range 8 {
		w.SGE = append(w.SGE, a.sge(i*500, 500))
	}
	a.post(w)
	carry(a, b)
	b.wantRecv("SEND", 1, ib.WCSuccess)
	for i := range 8 {
		b.wantBytes("element", i*1000, src[i*500:i*500+500])
		b.wantUntouched("between", i*1000+500, 500)
	}
}
