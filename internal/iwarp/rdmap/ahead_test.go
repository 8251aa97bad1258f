// SPDX-License-Identifier: BSD-2-Clause

package rdmap

import (
	"bytes"
	"testing"

	"verbena/ib"
	wire "verbena/internal/wire/iwarp"
)

// lengths are those of SENDs, in segments of 600 bytes, most as long as the one before. A shorter
// one ends within a segment, or at the end of one.
var lengths = []int{1501, 1501, 1501, 900, 700, 1501, 1200, 1501}

const (
	talkRoom = 2000 // for each SEND at its sender, and in the receives
	talkTo   = 20000
	talkMSS  = 600 + wire.UntaggedBytes + wire.LengthBytes + wire.CRCBytes
)

// received returns the room of a receive: at least one has none behind its message.
func received(i int) int {
	if i == 3 {
		return lengths[i]
	}
	return 1550
}

func talkers(t *testing.T, crc bool) (a, b *end) {
	a, b = pair(t, func(o *options) { o.crc, o.mss, o.memory = crc, talkMSS, 24<<10 })
	for i, n := range lengths {
		a.fill(i*talkRoom, n, i)
	}
	a.fill(talkTo, 1300, 9)
	return a, b
}

// converse has a post SENDs of all lengths and a WRITE between, and b the receives.
func converse(a, b *end) {
	for i := copy(b.bytes, []byte{untouched}); i < len(b.bytes); i *= 2 {
		copy(b.bytes[i:], b.bytes[:i])
	}
	for i, n := range lengths {
		at := i * talkRoom
		b.postRecv(uint64(i), b.sge(at, 750), b.sge(at+750, received(i)-750))
		a.post(a.send(at, n))
		if i == 3 {
			a.post(a.write(talkTo, 1300, b, talkTo))
		}
	}
}

// wantTalk checks what came of converse: the messages, and nothing outside the receives and the
// range of the WRITE.
func wantTalk(a, b *end) {
	a.t.Helper()
	a.sends.list = a.sends.list[:0]
	for i, n := range lengths {
		at := i * talkRoom
		if wc := b.wantRecv("SEND", uint64(i), ib.WCSuccess); int(wc.ByteLen) != n {
			b.fatalf("SEND %d has %d bytes, want %d", i, wc.ByteLen, n)
		}
		b.wantBytes("SEND", at, a.bytes[at:at+n])
		b.wantUntouched("behind the receive", at+received(i), talkRoom-received(i))
	}
	b.wantBytes("WRITE", talkTo, a.bytes[talkTo:talkTo+1300])
	b.wantUntouched("behind the WRITE", talkTo+1300, len(b.bytes)-talkTo-1300)
	b.wantUntouched("before the WRITE", len(lengths)*talkRoom, talkTo-len(lengths)*talkRoom)
	b.freed()
}

// TestGuesses: a read takes several segments, and a wrong guess is put right.
func TestGuesses(t *testing.T) {
	for _, crc := range []bool{false, true} {
		a, b := talkers(t, crc)
		converse(a, b)
		reads := 0
		for left := a.out; len(left) > 0; reads++ {
			left = left[b.readAhead(left):]
		}
		wantTalk(a, b)
		if wrong := b.s.Count[WrongGuesses]; wrong == 0 || reads > 18 {
			t.Errorf("CRC %v: %d reads, %d wrong guesses", crc, reads, wrong)
		}
	}
}

// TestGuessesCut: a read may end at any byte.
func TestGuessesCut(t *testing.T) {
	for _, crc := range []bool{false, true} {
		a, b := talkers(t, crc)
		step := 7
		if crc {
			step = 1
		}
		for cut, all := 1, 2; cut < all; cut += step {
			converse(a, b)
			all = len(a.out)
			b.take(a.out[:cut], whole, always)
			b.take(a.out[cut:], whole, always)
			a.out = a.out[:0]
			wantTalk(a, b)
		}
	}
}

// TestGuessTakenBackFirst: the bytes of a wrong guess have left the receive's memory before it
// completes, since the application may use it at once.
func TestGuessTakenBackFirst(t *testing.T) {
	a, b := talkers(t, true)
	converse(a, b)
	var kept [][]byte
	b.recvs.onPush = func() {
		i := len(kept)
		at := i * talkRoom
		kept = append(kept, bytes.Clone(b.bytes[at:at+lengths[i]]))
		clear(b.bytes[at : at+received(i)])
	}
	b.take(a.out, whole, always)
	for i, n := range lengths {
		at := i * talkRoom
		b.wantRecv("SEND", uint64(i), ib.WCSuccess)
		if !bytes.Equal(kept[i], a.bytes[at:at+n]) {
			t.Errorf("SEND %d has other bytes", i)
		}
		b.wantBytes("behind", at, make([]byte, received(i)))
	}
	if b.s.Count[WrongGuesses] == 0 {
		t.Error("no guess was wrong")
	}
}

// TestHostileGuesses: headers that are not as guessed have the same effect as without a guess,
// but in the receive that is held.
func TestHostileGuesses(t *testing.T) {
	const room = 6000
	payload := bytes.Repeat([]byte{0x55}, 1440)[:1440:1440]
	send := func(last bool, msn, mo uint32) wire.Header {
		return untaggedH(wire.Send, last, 0, msn, mo)
	}
	for name, next := range map[string]func(b *end) []byte{
		"as guessed": func(*end) []byte { return segment(send(false, 2, 1440), payload...) },
		"last":       func(*end) []byte { return segment(send(true, 2, 1440)) },
		"short":      func(*end) []byte { return segment(send(true, 2, 1440), payload[:9]...) },
		"long":       func(*end) []byte { return segment(send(false, 2, 1440), make([]byte, 4000)...) },
		"offset":     func(*end) []byte { return segment(send(true, 2, 2880), payload...) },
		"number":     func(*end) []byte { return segment(send(true, 3, 1440), payload...) },
		"queue":      func(*end) []byte { return segment(untaggedH(wire.Send, true, 1, 2, 1440), payload...) },
		"kind":       func(*end) []byte { return segment(untaggedH(wire.SendSE, true, 0, 2, 1440), payload...) },
		"READ":       func(*end) []byte { return segment(untaggedH(wire.ReadRequest, true, 1, 1, 0), payload...) },
		"WRITE": func(b *end) []byte {
			return segment(tagged(wire.RDMAWrite, true, b.mr.RKey(), base+50000), append(payload, 1, 2, 3, 4)...)
		},
		"WRITE past": func(b *end) []byte {
			return segment(tagged(wire.RDMAWrite, true, b.mr.RKey(), base+memBytes), payload...)
		},
		"READ response":  func(b *end) []byte { return segment(tagged(wire.ReadResponse, true, b.mr.RKey(), base), payload...) },
		"no header":      func(*end) []byte { return wire.AppendFPDU(nil, []byte{1}, true) },
		"bad CRC":        func(*end) []byte { s := segment(send(true, 2, 1440), payload...); s[len(s)-1]++; return s },
		"half a segment": func(*end) []byte { return segment(send(true, 2, 1440), payload...)[:700] },
	} {
		run := func(direct func() bool) *end {
			_, b := pair(t)
			for i := range 4 {
				b.postRecv(uint64(i), b.sge(i*room, 5000))
			}
			first := segment(send(false, 1, 0), payload...)
			first = append(first, segment(send(false, 1, 1440), payload...)...)
			first = append(first, segment(send(true, 1, 2880), payload...)...)
			b.take(first, whole, direct) // so that as many are guessed
			b.wantRecv("first", 0, ib.WCSuccess)
			stream := append(segment(send(false, 2, 0), payload...), next(b)...)
			stream = append(stream, segment(send(true, 2, 2880), payload...)...)
			stream = append(stream, segment(send(true, 3, 0), payload...)...)
			b.take(stream, whole, direct)
			return b
		}
		got, want := run(always), run(never)
		if got.s.State() != want.s.State() || !bytes.Equal(got.out, want.out) {
			t.Errorf("%s: %v, sent %x; want %v, %x", name, got.s.State(), got.out, want.s.State(), want.out)
		}
		if g, w := got.recvs.list, want.recvs.list; len(g) != len(w) {
			t.Errorf("%s: %d receives completed, want %d", name, len(g), len(w))
		} else {
			for i := range g {
				if g[i] != w[i] {
					t.Errorf("%s: completion %+v, want %+v", name, g[i], w[i])
				}
			}
		}
		// its receive may have other bytes behind those of its message
		got.wantBytes(name, 0, want.bytes[:room+1440])
		got.wantBytes(name, room+4320, want.bytes[room+4320:])
		got.freed()
	}
}

// TestGuessIsHeld: memory of a guess is held until the read is handled, whatever happens
// meanwhile.
func TestGuessIsHeld(t *testing.T) {
	for name, meanwhile := range map[string]func(b *end){
		"nothing": func(b *end) {},
		"error":   func(b *end) { b.s.Modify(0, &ib.QPAttr{State: ib.QPErr}, ib.QPStateAttr) },
		"reset":   func(b *end) { b.s.Modify(0, &ib.QPAttr{State: ib.QPReset}, ib.QPStateAttr) },
		"close":   func(b *end) { b.s.HandleClose(0, true) },
	} {
		a, b := talkers(t, true)
		converse(a, b)
		b.take(a.out[:1501+3*wire.UntaggedBytes+60], whole, always) // the second message has begun
		iov, placed := b.s.Place(nil)
		pieces := len(iov)
		iov, ahead := b.s.PlaceAhead(iov, placed, &b.guess)
		if ahead < 901 {
			t.Fatalf("%s: guessed %d bytes behind %d", name, ahead, placed)
		}
		meanwhile(b)
		b.s.HandlePlaced(iov[:pieces], 0)
		if b.mr.Idle() {
			t.Errorf("%s: let go while the reader may write", name)
		}
		b.s.HandleAhead(0, iov[pieces:], 0, &b.guess)
		b.freed()
	}
}
