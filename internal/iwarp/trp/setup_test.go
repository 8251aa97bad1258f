// SPDX-License-Identifier: BSD-2-Clause

package trp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"testing"

	"verbena/internal/monotime"
	wire "verbena/internal/wire/trp"
)

func TestConnect(t *testing.T) {
	s := dial(t, Config{})
	s.wantState(ReqSent)
	s.pass(10 * monotime.Millisecond)
	s.accept(DefaultWindow)
	s.wantACK(0, 0)
	s.wantNothing()
	ev := s.wantEvent(EventEstablished, 0)
	if ev.Setup.IRD != 2 || ev.Setup.ORD != 4 || !bytes.Equal(ev.Setup.PrivateData, []byte("yes")) {
		t.Errorf("%+v", ev.Setup)
	}
	wantEqual(t, "peer", s.c.Peer(), serverAddr)
	wantEqual(t, "room", s.c.Room(), maxQueued)
	s.pass(100 * monotime.Second) // an association may be silent
	s.wantNothing()
	s.wantState(Established)
}

func TestRequestIsRepeatedAndGivenUp(t *testing.T) {
	s := dial(t, Config{})
	request := wire.Packet{Header: wire.Header{AckPSN: DefaultWindow, Opcode: wire.Request}, Setup: s.c.local}
	for _, after := range []monotime.Duration{1, 2, 2, 2, 2, 2, 2} {
		s.pass(after*monotime.Second - 1)
		s.wantNothing()
		s.pass(1)
		s.want("the Request again", request)
	}
	s.pass(2*monotime.Second - 1)
	s.wantNoEvent()
	s.pass(1)
	s.wantNothing()
	s.wantEvent(EventUnreachable, 0)
	s.wantEvent(EventClosed, 0)
	s.wantState(Closed)
	s.accept(DefaultWindow)
	s.wantNothing()
	s.wantNoEvent()
}

func TestRejected(t *testing.T) {
	s := dial(t, Config{})
	s.recv(wire.Packet{Header: wire.Header{Opcode: wire.Reject}, Setup: wire.Setup{PrivateData: []byte("no")}})
	if ev := s.wantEvent(EventRejected, 0); !bytes.Equal(ev.Setup.PrivateData, []byte("no")) {
		t.Errorf("%+v", ev.Setup)
	}
	s.wantEvent(EventClosed, 0)
	s.pass(100 * monotime.Second)
	s.wantNothing()
}

// Only the server's address may answer, and once it has, only that port.
func TestAnswerFromElsewhere(t *testing.T) {
	s := dial(t, Config{})
	s.from = netip.MustParseAddrPort("192.0.2.3:60000")
	s.accept(DefaultWindow)
	s.wantState(ReqSent)
	s.from = serverAddr
	s.accept(DefaultWindow)
	s.wantACK(0, 0)
	s.from = netip.MustParseAddrPort("192.0.2.2:60001")
	s.accept(DefaultWindow)
	s.recv(data(0, 0), fin(0, 0))
	s.wantNothing()
	s.wantState(Established)
	s.wantCount(BadSource, 4)
}

func TestRepeatedAcceptIsAcknowledgedAgain(t *testing.T) {
	s := established(t, Config{})
	s.accept(DefaultWindow)
	s.wantACK(0, 0)
	s.wantNoEvent()
	s.wantCount(Duplicate, 1)
}

func TestWindowAgreed(t *testing.T) {
	for _, c := range []struct {
		mine int
		its  wire.PSN
		want int
	}{{0, 0, plainWindow}, {0, 1024, 1024}, {0, 1 << 31, DefaultWindow}, {0, 0xffffffff, DefaultWindow}, {0, 1, 1}, {64, 1024, 64}, {64, 0, 64}, {4096, 2048, 2048}} {
		s := &script{t: t, from: serverAddr, burst: NewBurst()}
		var err error
		if s.c, err = Dial(0, Config{Window: c.mine}, s, listenAddr, wire.Setup{}); err != nil {
			t.Fatal(err)
		}
		s.poll()
		s.accept(c.its)
		n := 0
		for ; s.c.Send(segment0(uint64(n))); n++ {
		}
		wantEqual(t, "segments taken", n, min(c.want, maxQueued))
		wantEqual(t, "window", s.c.snd.window, uint64(c.want))
	}
	for _, w := range []int{-1, 1, 32, 63, 65, 100, 262144} {
		if _, err := Dial(0, Config{Window: w}, nil, listenAddr, wire.Setup{}); !errors.Is(err, ErrWindow) {
			t.Errorf("window %d: %v", w, err)
		}
		if _, err := NewListener(Config{Window: w}, 0, 5); !errors.Is(err, ErrWindow) {
			t.Errorf("listener's window %d: %v", w, err)
		}
	}
	if _, err := Dial(0, Config{}, nil, listenAddr, wire.Setup{PrivateData: make([]byte, 513)}); !errors.Is(err, ErrPrivateData) {
		t.Error(err)
	}
}

// request is a Request as it arrives; window 0 is urdma.
func request(window wire.PSN) []byte {
	p := wire.Packet{Header: wire.Header{AckPSN: window, Opcode: wire.Request}, Setup: wire.Setup{IRD: 1, ORD: 2, PrivateData: []byte("hi")}}
	return p.Append(nil)
}

// ask has a Request arrive, and again with the cookie of the challenge, if there is one.
func (l *Listener) ask(now monotime.Time, from netip.AddrPort, window wire.PSN) (c *Conn, fresh bool) {
	c, fresh, again := l.HandleInput(now, from, request(window))
	if again != nil {
		c, fresh, _ = l.HandleInput(now, from, requestWith(again.cookie, window))
	}
	return c, fresh
}

// requestWith is a Request with a cookie.
func requestWith(cookie, window wire.PSN) []byte {
	b := request(window)
	binary.BigEndian.PutUint32(b, uint32(cookie))
	return b
}

// requested returns a server that has a Request.
func requested(t *testing.T, window wire.PSN) (*script, *Listener) {
	t.Helper()
	l, err := NewListener(Config{}, 2, 5)
	if err != nil {
		t.Fatal(err)
	}
	s := &script{t: t, from: clientAddr, burst: NewBurst()}
	c, fresh := l.ask(0, clientAddr, window)
	if !fresh || c.Remote().IRD != 1 || c.Remote().ORD != 2 || string(c.Remote().PrivateData) != "hi" || c.Peer() != clientAddr {
		t.Fatalf("%v, %+v from %v", fresh, c.Remote(), c.Peer())
	}
	s.c = c
	return s, l
}

func (s *script) acceptIt() {
	s.t.Helper()
	if err := s.c.Accept(s.now, s, wire.Setup{IRD: 3, PrivateData: []byte("ok")}); err != nil {
		s.t.Fatal(err)
	}
	s.poll()
	s.wantAccept()
}

func (s *script) wantAccept() {
	s.t.Helper()
	s.want("Accept", wire.Packet{Header: wire.Header{AckPSN: DefaultWindow, Opcode: wire.Accept}, Setup: wire.Setup{IRD: 3, PrivateData: []byte("ok")}})
}

func TestAcceptWaitsForTheClient(t *testing.T) {
	s, _ := requested(t, 512)
	s.acceptIt()
	s.wantNoEvent()
	wantEqual(t, "room", s.c.Room(), 512)
	s.send(1)
	s.wantNothing() // held back
	s.pass(100 * monotime.Millisecond)
	s.wantAccept()
	s.recv(ack(0, 0))
	s.wantData(0, 0)
	s.wantEvent(EventEstablished, 0)
	s.recv(ack(0, 1))
	s.pass(100 * monotime.Second)
	s.wantNothing()
}

func TestAcceptIsGivenUp(t *testing.T) {
	s, _ := requested(t, 512)
	s.acceptIt()
	s.send(1)
	for i := range acceptRetries {
		s.pass(acceptInterval << i)
		s.wantAccept()
	}
	s.pass(acceptInterval << acceptRetries)
	s.wantFIN(1, 0) // the segment that was held back is missing
	s.wantEvent(EventDisconnected, Unconfirmed)
	s.pass(timeWait)
	s.wantEvent(EventClosed, 0)
	s.wantNothing()
}

// A client like urdma is silent until it has something to say, and cannot be asked
// whether it is there. Until something has come from its address it gets a few Accepts
// and nothing else.
func TestAcceptToUrdma(t *testing.T) {
	s, _ := requested(t, 0)
	s.acceptIt()
	s.send(1)
	s.wantNothing()
	s.wantNoEvent()
	for i := range plainRetries {
		s.pass(acceptInterval << i)
		s.wantAccept()
	}
	s.pass(30 * monotime.Second)
	s.wantNothing()
	s.recv(data(0, 0))
	s.wantEvent(EventEstablished, 0)
	s.wantData(0, 1)
	s.recv(ack(1, 1))
	s.pass(100 * monotime.Second)
	s.wantNothing()
	s.wantState(Established)

	s, l := requested(t, 0)
	s.acceptIt()
	for i := range plainRetries {
		s.pass(acceptInterval << i)
		s.wantAccept()
	}
	s.pass(plainTimeout - 8*acceptInterval)
	s.wantNothing()
	s.wantNoEvent()
	s.pass(8 * acceptInterval)
	s.wantFIN(0, 0)
	s.wantEvent(EventDisconnected, Unconfirmed)
	s.pass(timeWait)
	s.wantEvent(EventClosed, 0)
	s.wantNothing()
	l.Forget(clientAddr)
	if len(l.unproven) != 0 {
		t.Errorf("%d unproven", len(l.unproven))
	}
}

func TestReject(t *testing.T) {
	s, l := requested(t, 512)
	if err := s.c.Reject(s.now, make([]byte, 513)); !errors.Is(err, ErrPrivateData) {
		t.Error(err)
	}
	if err := s.c.Reject(s.now, []byte("busy")); err != nil {
		t.Fatal(err)
	}
	no := wire.Packet{Header: wire.Header{Opcode: wire.Reject}, Setup: wire.Setup{PrivateData: []byte("busy")}}
	s.poll()
	s.want("Reject", no)
	s.pass(monotime.Second) // it was lost: the Request comes again
	c, fresh := l.ask(s.now, clientAddr, 512)
	if c != s.c || fresh {
		t.Fatal("a repeated Request is a new one")
	}
	c.HandleInput(s.now, clientAddr, request(512))
	s.poll()
	s.want("Reject", no)
	s.pass(requestLife)
	s.wantEvent(EventClosed, 0)
	s.wantNothing()
	for _, err := range []error{s.c.Reject(s.now, nil), s.c.Accept(s.now, s, wire.Setup{})} {
		if !errors.Is(err, ErrState) {
			t.Error(err)
		}
	}
}

// A Request that comes again finds its association: the Accept was lost, or the
// Request was late. Long after, the client has started anew.
func TestRepeatedRequest(t *testing.T) {
	s, l := requested(t, 512)
	again := func() {
		t.Helper()
		c, fresh := l.ask(s.now, clientAddr, 512)
		if c != s.c || fresh {
			t.Fatal("a repeated Request is a new one")
		}
		c.HandleInput(s.now, clientAddr, request(512))
		s.poll()
	}
	again()
	s.wantNothing() // the application is not done
	s.acceptIt()
	again()
	s.wantAccept()
	s.recv(ack(0, 0))
	s.wantEvent(EventEstablished, 0)
	again()
	s.wantNothing()
	s.pass(requestLife)
	s.wantState(Established)
	again()
	s.wantNothing()
	s.wantEvent(EventDisconnected, PeerRestart)
	s.wantEvent(EventClosed, 0)
	l.Forget(clientAddr)
	if _, fresh := l.ask(s.now, clientAddr, 512); !fresh {
		t.Error("the new association is not made")
	}
}

// Aborted before the client had the Accept: the client hears of it.
func TestAbortedAccept(t *testing.T) {
	s, _ := requested(t, 512)
	s.acceptIt()
	s.c.Close(s.now)
	s.poll()
	s.wantFIN(0, 0)
	s.c.HandleInput(s.now, clientAddr, request(512))
	s.poll()
	s.want("Reject", wire.Packet{Header: wire.Header{Opcode: wire.Reject}})
}

// A client that gives up refuses an Accept that comes after all.
func TestDialGivenUp(t *testing.T) {
	s := dial(t, Config{})
	s.c.Close(s.now)
	s.pass(3 * monotime.Second)
	s.wantNothing()
	s.accept(DefaultWindow)
	s.wantFIN(0, 0)
	s.pass(requestLife)
	s.wantEvent(EventClosed, 0)
	s.wantNoEvent()
}

func TestCloseRefuses(t *testing.T) {
	s, _ := requested(t, 512)
	s.c.Close(s.now)
	s.poll()
	s.want("Reject", wire.Packet{Header: wire.Header{Opcode: wire.Reject}})
}

func TestBacklog(t *testing.T) {
	_, l := requested(t, 512) // of 2
	second := netip.MustParseAddrPort("192.0.2.1:50001")
	third := netip.MustParseAddrPort("192.0.2.1:50002")
	if _, fresh := l.ask(0, second, 512); !fresh {
		t.Fatal("the second of two was dropped")
	}
	if c, fresh := l.ask(0, third, 512); c != nil || fresh {
		t.Fatal("the third of two was taken")
	}
	wantEqual(t, "dropped", l.Counters().By[BacklogFull], 1)
	l.Answered(l.clients[second].conn)
	l.Answered(l.clients[second].conn)
	wantEqual(t, "waiting", l.Waiting(), 1)
	if _, fresh := l.ask(0, third, 512); !fresh {
		t.Fatal("there was room")
	}
	l.Forget(third)
	l.Forget(third)
	wantEqual(t, "waiting", l.Waiting(), 1)
	wantEqual(t, "known", l.Len(), 2)
	l.most = 2
	l.Answered(l.clients[clientAddr].conn)
	if c, fresh := l.ask(0, netip.MustParseAddrPort("192.0.2.9:1"), 512); c != nil || fresh {
		t.Fatal("one client too many was taken")
	}
	wantEqual(t, "dropped", l.Counters().By[BacklogFull], 2)
	wantEqual(t, "why", l.Dropped(), "too many requests wait")
	for _, d := range []struct {
		b   []byte
		why string
	}{
		{nil, "no datagram of TRP: too_short"}, {data(0, 0).Append(nil), ""},
		{request(512)[:15], "no datagram of TRP: short_setup"},
	} {
		if c, fresh, again := l.HandleInput(0, third, d.b); c != nil || fresh || again != nil {
			t.Errorf("%x made an association", d.b)
		}
		wantEqual(t, "why", l.Dropped(), d.why)
	}
	wantEqual(t, "of no use", l.Counters().By[IgnoredOpcode], 1)
	wantEqual(t, "too short", l.Counters().Malformed[wire.TooShort]+l.Counters().Malformed[wire.ShortSetup], 2)
}
