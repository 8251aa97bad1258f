// SPDX-License-Identifier: BSD-2-Clause

package xsk_test

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"verbena/internal/monotime"
	"verbena/internal/sys/portshare"
	"verbena/internal/sys/udp"
	"verbena/internal/sys/xsk"
)

// to makes a datagram for a slot's process at the other end.
func to(slot int) udp.Datagrams {
	payload := make([]byte, 64)
	binary.BigEndian.PutUint32(payload[4:], uint32(slot)<<portshare.SlotShift|9)
	return udp.Datagrams{Dst: netip.AddrPortFrom(v4b, testPort), Iov: [][]byte{payload}}
}

// sender sends by a ring. One datagram a second goes by the kernel's socket instead.
type sender struct {
	*xsk.Source
	by *xsk.Socket
}

func newSender(t *testing.T, a, b *end, addr netip.Addr, by *xsk.Socket) sender {
	t.Helper()
	return sender{by.Source(plain(t, addr), a.wayTo(b), false), by}
}

// send sends an item n times by the ring, and waits where too many datagrams are under way.
func send(t *testing.T, s sender, n int, d udp.Datagrams) {
	t.Helper()
	for until := monotime.Now().Add(patience); n > 0; {
		before := s.by.Counters().Sent
		k, err := s.WriteBatch([]udp.Datagrams{d})
		if err != nil || monotime.Now() > until {
			t.Fatal(n, err)
		}
		if k == 0 {
			s.WaitWritable(monotime.Millisecond)
		}
		if s.by.Counters().Sent > before {
			n--
		}
	}
}

// Processes end again and again with frames in their receive ring: unread, read and not given back,
// and half given back. No frame is lost or there twice, and the next process receives.
func TestFramesOfDeadProcessesComeBack(t *testing.T) {
	_, a, b := wire(t, 1500)
	if a == nil {
		return
	}
	from := newSender(t, a, b, v4a, a.open(3))
	const slot = 5
	ended := func(int) bool { return false } // of the others
	for round := range xsk.Places + 8 {
		s, place := b.seat(slot)
		send(t, from, xsk.RingFrames+round, to(slot)) // more than the ring holds: the kernel drops the rest
		collect(t, s, round%5*udp.RxMessages)
		if round%5 == 1 {
			s.DieWhileFilling(round%2 == 0)
		}
		s.Close()
		b.prog.Take(slot)
		b.pool.Reclaim(place, ended)
		if n := b.pool.Filled(); n != xsk.RingFrames {
			t.Fatalf("round %d: %d of %d frames are in the fill ring", round, n, xsk.RingFrames)
		}
	}
}

// A process is stopped while it has the completion ring's lock. Another one's datagrams go by the
// kernel's socket when its frames are used up.
func TestStoppedProcessKeepsNoOtherFromSending(t *testing.T) {
	_, a, b := wire(t, 1500)
	if a == nil {
		return
	}
	s := a.open(3)
	from := newSender(t, a, b, v4a, s)
	s.StopWhileReaping()
	const datagrams = 10 * 256 // ten times its frames
	d := []udp.Datagrams{to(5)}
	for i, until := 0, monotime.Now().Add(patience); i < datagrams; {
		n, err := from.WriteBatch(d)
		if err != nil || monotime.Now() > until {
			t.Fatalf("%d of %d datagrams were sent, %v; %+v", i, datagrams, err, s.Counters())
		}
		if n == 0 {
			from.WaitWritable(monotime.Millisecond)
		}
		i += n
	}
	if c := s.Counters(); c.Sent != 256 || c.Elsewhere < datagrams-256 {
		t.Errorf("%+v", c)
	}
}

// A process that is stopped keeps its own frames only: another one receives as many as it likes.
func TestStoppedProcessKeepsNoOtherFromReceiving(t *testing.T) {
	_, a, b := wire(t, 1500)
	if a == nil {
		return
	}
	from := newSender(t, a, b, v4a, a.open(3))
	for slot := 10; slot < 10+xsk.Places-1; slot++ { // all places but one
		b.open(slot)
		send(t, from, 2*xsk.RingFrames, to(slot))
	}
	s := b.open(5)
	for range 16 {
		send(t, from, 256, to(5))
		collect(t, s, 256)
	}
	if _, ok, err := b.pool.Seat(); ok || err != nil {
		t.Errorf("a place beyond the last: %v, %v", ok, err)
	}
}

// A queue has the frames of as many processes as ever shared it at once: each is used the sooner
// again.
func TestFramesForAsManyProcessesAsShare(t *testing.T) {
	_, a, b := wire(t, 1500)
	if a == nil {
		return
	}
	ended := func(int) bool { return false } // of the others
	type opened struct{ slot, place int }
	var all []opened
	for most, n := range []int{1, 2, 3} {
		for slot := range n {
			s, place := b.seat(10 + slot)
			defer s.Close()
			all = append(all, opened{10 + slot, place})
		}
		if got := b.pool.Filled(); got != (most+1)*xsk.RingFrames {
			t.Errorf("%d processes: %d frames, want %d", n, got, (most+1)*xsk.RingFrames)
		}
		for _, o := range all {
			b.prog.Take(o.slot)
			b.pool.Reclaim(o.place, ended)
		}
		all = all[:0]
	}
}
