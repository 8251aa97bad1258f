// SPDX-License-Identifier: BSD-2-Clause

package trp

import (
	"math/rand/v2"
	"testing"

	"verbena/internal/monotime"
	wire "verbena/internal/wire/trp"
)

func TestWhatCannotBe(t *testing.T) {
	for _, c := range []struct {
		name   string
		packet wire.Packet
		count  Counter
	}{
		{"ACK of what was not sent", ack(0, 4), BadACK},
		{"ACK of what is queued only", ack(0, 0x7fffffff), BadACK},
		{"segment with such an ACK", data(0, 4), BadACK},
		{"old ACK", ack(0, 0xffffffff), OldACK},
		{"SACK of the oldest", sack(0, 2), BadRange},
		{"SACK beyond what was sent", sack(2, 4), BadRange},
		{"SACK of far ahead", sack(1000, 2000), BadRange},
		{"SACK from behind to ahead", sack(0xfffffff0, 2), BadRange},
		{"old SACK", sack(0xfffffff0, 0), OldACK},
		{"FIN of the past", fin(0xffffffff, 0), BadFIN},
		{"FIN beyond the window", fin(DefaultWindow+1, 0), BadFIN},
		{"FIN that acknowledges too much", fin(0, 4), BadACK},
		{"Request to a client", wire.Packet{Header: wire.Header{Opcode: wire.Request}}, IgnoredOpcode},
		{"Reject too late", wire.Packet{Header: wire.Header{Opcode: wire.Reject}}, IgnoredState},
	} {
		s := established(t, Config{})
		s.send(3)
		s.sent = nil
		s.recv(c.packet)
		s.wantCount(c.count, 1)
		s.wantNothing()
		s.wantNoEvent()
		s.wantUp()
		s.wantState(Established)
		s.recv(ack(0, 3)) // no harm was done
		wantEqual(t, c.name+": acknowledged", s.acked, 3)
	}
}

func TestAcceptToAServer(t *testing.T) {
	s, _ := requested(t, 512)
	s.acceptIt()
	s.accept(512)
	s.wantCount(IgnoredOpcode, 1)
	s.wantNothing()
	s.wantState(AcceptSent)
}

// Where nothing is expected, nothing has an effect.
func TestWrongState(t *testing.T) {
	s := dial(t, Config{})
	s.recv(data(0, 0), ack(0, 0), sack(1, 2), fin(0, 0))
	s.wantCount(IgnoredState, 4)
	s.wantNothing()
	s.wantState(ReqSent)

	s, _ = requested(t, 512)
	s.recv(data(0, 0), fin(0, 0))
	s.wantCount(IgnoredState, 2)
	s.wantNothing()
	s.wantState(Requested)
}

func TestMalformedIsCounted(t *testing.T) {
	s := established(t, Config{})
	s.c.HandleInput(0, serverAddr, make([]byte, 9))
	s.c.HandleInput(0, serverAddr, append(make([]byte, 8), 0xf0, 0))
	s.c.HandleInput(0, serverAddr, append(make([]byte, 8), 0x40, 0, 1))
	n := s.c.Counters()
	if n.Malformed[wire.TooShort] != 1 || n.Malformed[wire.BadOpcode] != 1 || n.Malformed[wire.TrailingBytes] != 1 {
		t.Errorf("%v", n.Malformed)
	}
	s.wantState(Established)
}

// checked is a script's upper layer that takes anything but holds the order.
type checked struct {
	t     *testing.T
	seen  map[uint64]bool
	next  uint64
	acked uint64
}

func (u *checked) HandleSegment(_ monotime.Time, seq uint64, _ []byte) bool {
	if u.seen[seq] || seq < u.next {
		u.t.Fatalf("segment %d came up twice", seq)
	}
	u.seen[seq] = true
	return true
}

func (u *checked) HandleInOrder(_ monotime.Time, next uint64) {
	for ; u.next < next; u.next++ {
		if !u.seen[u.next] {
			u.t.Fatalf("%d is in order, and %d has not come up", next, u.next)
		}
		delete(u.seen, u.next)
	}
}

func (u *checked) HandleAcked(_ monotime.Time, next uint64) {
	if next <= u.acked {
		u.t.Fatalf("acknowledged: %d after %d", next, u.acked)
	}
	u.acked = next
}

// check tests the invariants of a Conn, after any input.
func (c *Conn) check(t *testing.T) {
	t.Helper()
	w := &c.snd
	bytes, lostSlots, slots := 0, 0, 0
	for seq := w.una; seq < w.end; seq++ {
		s := w.at(seq)
		switch {
		case seq >= w.next && s.state != queued, seq < w.next && s.state == queued:
			t.Fatalf("segment %d is %d with [%d, %d, %d]", seq, s.state, w.una, w.next, w.end)
		case s.state == flying:
			bytes += s.bytes
			slots++
		case s.state == lost:
			lostSlots++
		}
		if w.sacked.has(seq) != (s.state == sacked) {
			t.Fatalf("segment %d is %d, and sacked: %v", seq, s.state, w.sacked.has(seq))
		}
	}
	xmit := uint64(0)
	for at := w.oldest; at != 0; at = w.at(at - 1).after {
		s := w.at(at - 1)
		if s.state != flying || s.xmit <= xmit {
			t.Fatalf("segment %d is %d, transmission %d after %d", at-1, s.state, s.xmit, xmit)
		}
		xmit = s.xmit
		slots--
	}
	if slots != 0 {
		t.Fatalf("%d flying slots are not in the order of transmission", slots)
	}
	if bytes != w.flyingBytes || lostSlots != w.lost {
		t.Fatalf("%d bytes in flight, counted %d; %d lost, counted %d", bytes, w.flyingBytes, lostSlots, w.lost)
	}
	if w.una > w.next || w.next > w.end || w.end-w.una > w.window || len(w.ring) > 2*c.Window {
		t.Fatalf("[%d, %d, %d] of %d, ring of %d", w.una, w.next, w.end, w.window, len(w.ring))
	}
	if (w.una < w.next) != (c.loss.rto != monotime.Never) {
		t.Fatalf("%d outstanding, time-out at %d", w.next-w.una, c.loss.rto)
	}
	r := &c.rcv
	if r.high > r.next+uint64(c.Window) || r.have.has(r.next) {
		t.Fatalf("received through %d, highest %d", r.next, r.high)
	}
	if len(c.events) > 3 {
		t.Fatalf("%d events", len(c.events))
	}
}

// anything makes a datagram that c may or may not expect.
func anything(r *rand.Rand, c *Conn) []byte {
	psn := func(near uint64) wire.PSN {
		switch r.IntN(8) {
		case 0:
			return wire.PSN(r.Uint32())
		case 1:
			return wire.PSN(near) - wire.PSN(r.Uint32N(100))
		}
		return wire.PSN(near) + wire.PSN(r.Uint32N(40))
	}
	p := wire.Packet{Header: wire.Header{PSN: psn(c.rcv.next), AckPSN: psn(c.snd.una)}}
	switch r.IntN(100) {
	case 0:
		p.Opcode = wire.Opcode(r.IntN(16))
		p.Setup.PrivateData = make([]byte, r.IntN(4))
	case 1:
		b := make([]byte, r.IntN(40))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return b
	case 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19:
		p.PSN, p.AckPSN, p.Opcode = psn(c.snd.una), psn(c.snd.una), wire.SACK
		return p.Append(nil)
	}
	p.Payload = make([]byte, r.IntN(3))
	return p.Append(nil)
}

// A peer that says anything at all breaks nothing: no panic, nothing unbounded,
// nothing twice, and an answer of a few datagrams at most.
func TestHostilePeer(t *testing.T) {
	runs := 200
	if testing.Short() {
		runs = 20
	}
	for seed := range runs {
		r := rand.New(rand.NewPCG(uint64(seed), 7))
		u := &checked{t: t, seen: map[uint64]bool{}}
		c, err := Dial(0, Config{Window: 64 << r.IntN(3)}, u, listenAddr, wire.Setup{})
		if err != nil {
			t.Fatal(err)
		}
		a := wire.Packet{Header: wire.Header{AckPSN: wire.PSN(r.Uint32N(200)), Opcode: wire.Accept}}
		b := NewBurst()
		c.HandleInput(0, serverAddr, a.Append(nil))
		now := monotime.Time(0)
		for range 2000 {
			for r.IntN(4) == 0 && c.Send(make([]byte, 1+r.IntN(100))) {
			}
			if r.IntN(10) != 0 {
				c.HandleInput(now, serverAddr, anything(r, c))
			} else {
				now = now.Add(monotime.Duration(r.IntN(int(5 * monotime.Millisecond))))
				c.HandleTimeout(now)
			}
			c.check(t)
			bursts := 0
			for ; r.IntN(8) != 0 && c.PollOutput(now, b); bursts++ {
				b.Reset()
			}
			if bursts > 1000 {
				t.Fatal("it does not stop sending")
			}
			c.check(t)
			c.PollEvent()
		}
	}
}

// FuzzInput has two ends of an association take anything in any order.
func FuzzInput(f *testing.F) {
	for _, p := range []wire.Packet{ack(0, 1), data(0, 0), data(2, 3), sack(1, 3), fin(0, 0), {Header: wire.Header{Opcode: wire.Accept}}, {Header: wire.Header{Opcode: wire.Request}}} {
		b := p.Append(nil)
		f.Add(append([]byte{byte(len(b))}, b...))
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		u := &checked{t: t, seen: map[uint64]bool{}}
		client, err := Dial(0, Config{Window: 64}, u, listenAddr, wire.Setup{})
		if err != nil {
			t.Fatal(err)
		}
		l, _ := NewListener(Config{Window: 64}, 1, 5)
		server, _ := l.ask(0, clientAddr, 3)
		v := &checked{t: t, seen: map[uint64]bool{}}
		if err := server.Accept(0, v, wire.Setup{}); err != nil {
			t.Fatal(err)
		}
		now := monotime.Time(0)
		b := NewBurst()
		for len(script) > 0 {
			n := min(int(script[0]&0x3f), len(script)-1)
			closing := script[0] >> 6
			in := script[1 : 1+n]
			script = script[1+n:]
			for _, c := range []*Conn{client, server} {
				from := clientAddr
				if c == client {
					from = serverAddr
				}
				c.Send([]byte("x"))
				c.HandleInput(now, from, in)
				switch closing {
				case 1:
					now = now.Add(3 * monotime.Millisecond)
					c.HandleTimeout(now)
				case 2:
					c.Close(now)
				}
				for c.PollOutput(now, b) {
					b.Reset()
				}
				c.check(t)
			}
		}
	})
}
