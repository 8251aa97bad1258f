// SPDX-License-Identifier: BSD-2-Clause

package trp

import (
	"testing"

	"verbena/internal/monotime"
	wire "verbena/internal/wire/trp"
)

// Nobody listens: the client need not wait for its retries, but for a listener that
// is about to come.
func TestRefusedRequest(t *testing.T) {
	s := dial(t, Config{})
	s.c.HandleRefused(s.now, serverAddr) // of another port
	s.sent = nil
	for range requestTimeout / refusedWait {
		s.c.HandleRefused(s.now, listenAddr)
		s.wantNoEvent()
		s.pass(refusedWait)
		if n := len(s.sent); n != 1 {
			t.Fatalf("%d Requests are sent again", n)
		}
		s.sent = nil
	}
	s.c.HandleRefused(s.now, listenAddr)
	s.wantEvent(EventUnreachable, Refused)
	s.wantEvent(EventClosed, 0)
	s.c.HandleRefused(s.now, listenAddr)
	s.wantNoEvent()
	s.pass(60 * monotime.Second)
	s.wantNothing()
}

// A listener that comes in time has the Request that is sent again.
func TestRefusedRequestThatIsHeard(t *testing.T) {
	s := dial(t, Config{})
	s.c.HandleRefused(s.now, listenAddr)
	s.sent = nil
	s.pass(refusedWait)
	if n := len(s.sent); n != 1 {
		t.Fatalf("%d Requests are sent again", n)
	}
	s.sent = nil
	s.accept(DefaultWindow)
	s.wantACK(0, 0)
	s.wantEvent(EventEstablished, 0)
	s.pass(refusedWait)
	s.c.HandleRefused(s.now, serverAddr) // one word, whatever was said of the Request
	s.wantNoEvent()
	s.wantState(Established)
}

// The peer's process has been killed: the second word counts, after a probe.
func TestRefusedPeer(t *testing.T) {
	s := established(t, Config{})
	s.send(3)
	s.sent = nil
	for range 3 { // one for each datagram of the burst
		s.c.HandleRefused(s.now, serverAddr)
	}
	s.wantNoEvent()
	s.pass(refusedWait)
	if n := len(s.sent); n == 0 {
		t.Fatal("nothing is sent that tells whether the peer is there")
	}
	s.sent = nil
	s.c.HandleRefused(s.now, serverAddr)
	s.poll()
	s.wantFIN(3, 0)
	s.wantEvent(EventDisconnected, Refused)
	s.pass(timeWait)
	s.wantEvent(EventClosed, 0)
}

// An idle one as well, and one that is heard of in between is there.
func TestRefusedIdlePeer(t *testing.T) {
	probe := wire.Packet{Header: wire.Header{PSN: ^wire.PSN(0)}, Payload: []byte{0}}
	s := established(t, Config{})
	s.c.HandleRefused(s.now, serverAddr)
	s.pass(refusedWait)
	s.want("probe", probe)
	s.recv(ack(0, 0))
	s.pass(refusedWait)
	s.c.HandleRefused(s.now, serverAddr) // forged
	s.wantNoEvent()
	s.pass(refusedWait)
	s.want("probe", probe)
	s.c.HandleRefused(s.now, serverAddr)
	s.poll()
	s.wantFIN(0, 0)
	s.wantEvent(EventDisconnected, Refused)
}

// A FIN that nobody is there to answer is not repeated.
func TestRefusedFIN(t *testing.T) {
	s := established(t, Config{})
	s.c.Close(s.now)
	s.poll()
	s.wantFIN(0, 0)
	s.c.HandleRefused(s.now, serverAddr)
	s.wantEvent(EventDisconnected, LocalClose)
	s.c.HandleRefused(s.now, serverAddr)
	s.pass(timeWait)
	s.wantEvent(EventClosed, 0)
	s.wantNothing()
}
