// SPDX-License-Identifier: BSD-2-Clause

package trp

import (
	"net/netip"
	"testing"

	"verbena/internal/monotime"
	wire "verbena/internal/wire/trp"
)

func strangerAt(n int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 99, byte(n >> 8), byte(n)}), 4242)
}

func newListener(t *testing.T, backlog int) *Listener {
	t.Helper()
	l, err := NewListener(Config{}, backlog, 5)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A forged Request costs nothing and gets one datagram, no larger than itself.
func TestForgedRequestIsChallenged(t *testing.T) {
	l := newListener(t, 0)
	for n := range 5000 {
		c, fresh, again := l.HandleInput(0, strangerAt(n), request(1024))
		if c != nil || fresh || again == nil {
			t.Fatalf("%v, %v, %v", c, fresh, again)
		}
		b := NewBurst()
		if !again.PollOutput(0, b) || b.Dst() != strangerAt(n) || b.Bytes() > len(request(1024)) || again.PollOutput(0, b) {
			t.Fatalf("answered with %d bytes to %v", b.Bytes(), b.Dst())
		}
	}
	if l.Len() != 0 || l.Waiting() != 0 || l.Counters().By[Challenged] != 5000 {
		t.Errorf("%d associations, %d waiting, %d challenged", l.Len(), l.Waiting(), l.Counters().By[Challenged])
	}
}

// A cookie is good for the address and port that it was sent to, for some seconds.
func TestCookies(t *testing.T) {
	const begun = 7 * monotime.Time(monotime.Second)
	other := newListener(t, 0)
	other.secret++
	for name, c := range map[string]struct {
		l     *Listener
		from  netip.AddrPort
		after monotime.Duration
		good  bool
	}{
		"at once":          {nil, clientAddr, 0, true},
		"in time":          {nil, clientAddr, cookieLife, true},
		"late":             {nil, clientAddr, 2 * cookieLife, false},
		"another port":     {nil, netip.AddrPortFrom(clientAddr.Addr(), 1), 0, false},
		"another address":  {nil, strangerAt(1), 0, false},
		"another listener": {other, clientAddr, 0, false},
	} {
		l := newListener(t, 0)
		_, _, again := l.HandleInput(begun, clientAddr, request(1024))
		if c.l != nil {
			l = c.l
		}
		_, fresh, again := l.HandleInput(begun.Add(c.after), c.from, requestWith(again.cookie, 1024))
		if fresh != c.good || (again == nil) != c.good {
			t.Errorf("%s: taken %v, challenged %v", name, fresh, again != nil)
		}
	}
	l := newListener(t, 0)
	if _, fresh, _ := l.HandleInput(0, clientAddr, requestWith(0, 1024)); fresh {
		t.Error("no cookie is a good one")
	}
}

// The client sends its Request again at once, and with the cookie from then on.
func TestClientAnswersAChallenge(t *testing.T) {
	s := dial(t, Config{})
	want := wire.Packet{Header: wire.Header{PSN: 77, AckPSN: DefaultWindow, Opcode: wire.Request}, Setup: s.c.local}
	challenge := wire.Packet{Header: wire.Header{PSN: 77, Opcode: wire.Request}}
	s.recv(challenge)
	s.want("the Request with the cookie", want)
	s.pass(challengedInterval)
	s.want("and again", want)
	s.accept(DefaultWindow)
	s.wantACK(0, 0)
	s.wantEvent(EventEstablished, 0)
	s.recv(challenge)
	s.wantNothing()
	s.wantState(Established)
}

// Each challenge is answered at once, but does not make the client wait for longer.
func TestEndlessChallenges(t *testing.T) {
	s := dial(t, Config{})
	waited := monotime.Duration(0)
	for n := range wire.PSN(100) {
		s.recv(wire.Packet{Header: wire.Header{PSN: 77 + n, Opcode: wire.Request}})
		s.pass(monotime.Second)
		if waited += monotime.Second; s.c.State() == Closed {
			break
		}
	}
	if waited < 12*monotime.Second || waited > 14*monotime.Second {
		t.Errorf("given up after %v", waited)
	}
	s.wantState(Closed)
}

// Requests like urdma's, which cannot be challenged, are few: of one address, of all,
// and of a backlog. Others are served meanwhile.
func TestForgedRequestsLikeUrdmas(t *testing.T) {
	for name, c := range map[string]struct {
		backlog, want int
		from          func(n int) netip.AddrPort
	}{
		"many addresses": {0, maxUnproven, strangerAt},
		"one address":    {0, maxUnprovenOfOne, func(n int) netip.AddrPort { return netip.AddrPortFrom(strangerAt(1).Addr(), uint16(n+1)) }},
		"small backlog":  {5, 3, strangerAt},
	} {
		l := newListener(t, c.backlog)
		var taken []*Conn
		for n := range 5000 {
			if conn, fresh, again := l.HandleInput(0, c.from(n), request(0)); fresh {
				taken = append(taken, conn)
			} else if again != nil {
				t.Fatal("urdma is challenged")
			}
		}
		if len(taken) != c.want {
			t.Errorf("%s: %d were taken, want %d", name, len(taken), c.want)
		}
		if conn, fresh := l.ask(0, clientAddr, 1024); conn == nil || !fresh {
			t.Errorf("%s: a client that can be asked is not served", name)
		}
		l.Established(taken[0].Peer())
		l.Answered(taken[0])
		l.Answered(l.clients[clientAddr].conn)
		if _, fresh := l.ask(0, netip.AddrPortFrom(strangerAt(9999).Addr(), 1), 0); !fresh && name != "one address" {
			t.Errorf("%s: one has shown that it is there, and no other is taken", name)
		}
		for _, conn := range taken {
			l.Forget(conn.Peer())
		}
		if len(l.unproven) > 1 {
			t.Errorf("%s: %d unproven are left", name, len(l.unproven))
		}
	}
}

// An unproven Request that the application does not answer gives its place back after
// requestLife, and cannot be answered then. One that is answered has the time-outs of its
// Accept, and one of a proven client waits for as long as the application takes.
func TestUnansweredUnprovenRequestExpires(t *testing.T) {
	l := newListener(t, 0)
	address := func(port int) netip.AddrPort { return netip.AddrPortFrom(strangerAt(1).Addr(), uint16(port)) }
	var asked []*Conn
	for n := range maxUnprovenOfOne {
		c, _ := l.ask(0, address(n+1), 0)
		asked = append(asked, c)
	}
	proven, _ := l.ask(0, clientAddr, 1024)
	if !l.Answered(asked[0]) || l.Answered(asked[0]) {
		t.Error("the first is not answered once")
	}
	if _, fresh := l.ask(monotime.Time(requestLife)-1, address(9), 0); fresh {
		t.Error("another is taken in time")
	}
	for n := range maxUnprovenOfOne {
		if _, fresh := l.ask(monotime.Time(requestLife), address(100+n), 0); fresh != (n < maxUnprovenOfOne-1) {
			t.Errorf("number %d after that: taken %v", n, fresh)
		}
	}
	if n := l.count.By[Expired]; n != maxUnprovenOfOne-1 {
		t.Errorf("%d expired", n)
	}
	again, fresh := l.ask(2*monotime.Time(requestLife), asked[1].Peer(), 0) // its client asks anew
	if !fresh || l.Answered(asked[1]) || !l.Answered(again) || !l.Answered(proven) {
		t.Errorf("taken %v; the old one or not the new one, or not that of a proven client, can be answered", fresh)
	}
}

// A forged Request does not end an association as one of a client that has started
// anew does.
func TestForgedRequestFromAClientsPort(t *testing.T) {
	s, l := requested(t, 512)
	s.acceptIt()
	s.recv(ack(0, 0))
	s.wantEvent(EventEstablished, 0)
	l.Established(clientAddr)
	s.pass(2 * requestLife)
	if c, fresh, again := l.HandleInput(s.now, clientAddr, request(512)); c != nil || fresh || again == nil {
		t.Errorf("%v, %v, %v", c, fresh, again)
	}
	if c, fresh := l.ask(s.now, clientAddr, 512); c != s.c || fresh {
		t.Errorf("%v, %v", c, fresh)
	}
}
