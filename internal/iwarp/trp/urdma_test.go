// SPDX-License-Identifier: BSD-2-Clause

package trp

import (
	"encoding/binary"
	"testing"

	"verbena/internal/monotime"
)

// urdma is a peer that behaves as urdma is known to, written from that alone and from nothing of
// this package, bytes included. It has a fixed time-out of 10 ms and five tries. It keeps one range
// beyond a gap and drops segments that do not touch it. It does not acknowledge a duplicate. SACK
// changes nothing for its sender. The latest ACK counts even if it is older. A SACK replaces an ACK
// while a gap is there, and one ACK or SACK follows each turn of its loop.
type urdma struct {
	t    *testing.T
	send func(b []byte)

	toSend   int
	next     uint32
	acked    uint32
	sentAt   map[uint32]monotime.Time
	tries    map[uint32]int
	expected uint32
	gap      bool
	min, max uint32
	tell     bool
	failed   bool
	over     bool
	got      map[uint32]int
}

func (u *urdma) header(psn, ack uint32, opcode uint16) []byte {
	b := binary.BigEndian.AppendUint32(nil, psn)
	b = binary.BigEndian.AppendUint32(b, ack)
	return binary.BigEndian.AppendUint16(b, opcode)
}

func (u *urdma) receive(b []byte) {
	psn, ack, opcode := binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint16(b[8:])&0xf000
	switch opcode {
	case 0x5000:
		return
	case 0x4000:
		if !u.over {
			u.over = true
			u.send(u.header(u.next, u.expected, 0x4000))
		}
		return
	case 0:
	default:
		return // "unexpected opcode; dropping"
	}
	if u.over {
		return
	}
	u.acked = ack
	if len(b) == 10 {
		return
	}
	switch {
	case psn == u.expected:
		u.expected++
		if u.gap && u.expected == u.min {
			u.expected, u.gap = u.max, false
		}
	case int32(psn-u.expected) < 0:
		return
	case !u.gap:
		u.gap, u.min, u.max = true, psn, psn+1
	case psn == u.max:
		u.max++
	case psn+1 == u.min:
		u.min--
	default:
		return
	}
	u.tell = true
	u.got[psn]++
	if want := segment0(uint64(psn)); string(b[10:]) != string(want) {
		u.t.Fatalf("segment %d is %q", psn, b[10:])
	}
}

// turn is one of its progress loop.
func (u *urdma) turn(now monotime.Time) {
	if u.over {
		return
	}
	for psn := u.acked; psn != u.next; psn++ {
		if now.Sub(u.sentAt[psn]) < 10*monotime.Millisecond {
			continue
		}
		if u.tries[psn]++; u.tries[psn] > 5 {
			u.failed = true
			return
		}
		u.transmit(now, psn)
	}
	for int(u.next) < u.toSend && int32(u.next-(u.acked+63)) < 0 {
		u.next++
		u.transmit(now, u.next-1)
	}
	switch {
	case u.tell && u.gap:
		u.send(u.header(u.min, u.max, 0x5000))
	case u.tell:
		u.send(u.header(u.next, u.expected, 0))
	}
	u.tell = false
}

func (u *urdma) transmit(now monotime.Time, psn uint32) {
	u.sentAt[psn] = now
	u.send(append(u.header(psn, u.expected, 0), segment0(uint64(psn))...))
	if !u.gap {
		u.tell = false
	}
}

// Against such a peer, with datagrams lost both ways, all segments arrive. The peer gives up none
// of its own segments, which it tries five times only. Segments that it drops come again.
func TestAgainstUrdma(t *testing.T) {
	const segments = 3000
	for seed := range uint64(20) {
		w := newWorld(t, seed) // for its clock and its random numbers
		lossPerMille := int(seed % 4 * 10)
		s, _ := requested(t, 0) // its client, our server
		s.c.upper = &placed{t: t, script: s, seen: map[uint64]bool{}}
		u := &urdma{t: t, toSend: segments, sentAt: map[uint32]monotime.Time{}, tries: map[uint32]int{}, got: map[uint32]int{}}
		if err := s.c.Accept(0, s.c.upper, s.c.local); err != nil {
			t.Fatal(err)
		}
		later := func(f func()) {
			if w.net.Rand.IntN(1000) >= lossPerMille {
				w.net.After(25*monotime.Microsecond, f)
			}
		}
		var pump func()
		ours := func() {
			s.now = w.net.Now()
			for s.c.snd.end < segments && s.c.Send(segment0(s.c.snd.end)) {
			}
			s.poll()
			for _, p := range s.sent {
				b := p.Append(nil)
				later(func() { u.receive(b) })
			}
			s.sent = nil
			if s.c.check(t); s.c.State() == TimeWait {
				t.Fatalf("seed %d: %v", seed, s.c.events)
			}
		}
		u.send = func(b []byte) {
			later(func() {
				s.now = w.net.Now()
				s.c.HandleInput(s.now, clientAddr, b)
				ours()
			})
		}
		pump = func() {
			u.turn(w.net.Now())
			if s.c.NextTimeout() <= w.net.Now() {
				s.c.HandleTimeout(w.net.Now())
				ours()
			}
			w.net.After(5*monotime.Microsecond, pump)
		}
		pump()
		ours()
		done := func() bool { return u.failed || s.order == segments && u.expected == segments && s.acked >= segments-1 }
		if !w.run(20*monotime.Second, done) || u.failed {
			t.Fatalf("seed %d, %d ‰ lost: we have %d and it has %d of %d; it gave up: %v; %+v", seed, lossPerMille, s.order, u.expected, segments, u.failed, s.c.Counters().By)
		}
		for psn, n := range u.got {
			if n != 1 {
				t.Fatalf("seed %d: it placed %d %d times", seed, psn, n)
			}
		}
	}
}

// placed is a script's upper layer where segments come out of order.
type placed struct {
	t *testing.T
	*script
	seen map[uint64]bool
}

func (p *placed) HandleSegment(now monotime.Time, seq uint64, segment []byte) bool {
	if p.seen[seq] {
		p.t.Fatalf("segment %d came up twice", seq)
	}
	p.seen[seq] = true
	return p.script.HandleSegment(now, seq, segment)
}
