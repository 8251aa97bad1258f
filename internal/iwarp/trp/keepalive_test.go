// SPDX-License-Identifier: BSD-2-Clause

package trp

import (
	"testing"

	"verbena/internal/monotime"
	wire "verbena/internal/wire/trp"
)

const quiet = 30 * monotime.Second

// An idle peer is asked, and answers: the association stays.
func TestIdlePeerAnswers(t *testing.T) {
	w := newWorld(t, 1)
	a := w.client.add(nil)
	w.server.onFresh = func(e *end) {
		if err := e.c.Accept(w.net.Now(), e, wire.Setup{}); err != nil {
			t.Fatal(err)
		}
	}
	w.client.start(a, w.server, Config{KeepAlive: quiet})
	w.run(5*monotime.Second*60, func() bool { return false })
	if a.c.State() != Established || w.server.all[0].c.State() != Established {
		t.Fatalf("%v and %v", a.c.State(), w.server.all[0].c.State())
	}
	if n := a.c.Counters().By[Probes]; n < 9 || n > 10 { // one each 30 s
		t.Fatalf("%d probes in five minutes", n)
	}
	if n := w.server.all[0].c.Counters().By[Duplicate]; n < 9 {
		t.Fatalf("the peer counts %d", n)
	}
}

// One that is gone is found out.
func TestIdlePeerIsGone(t *testing.T) {
	s := established(t, Config{KeepAlive: quiet})
	s.pass(quiet)
	for range maxProbes {
		s.want("probe", wire.Packet{Header: wire.Header{PSN: ^wire.PSN(0)}, Payload: []byte{0}})
		s.pass(probeInterval)
	}
	s.wantFIN(0, 0)
	s.wantEvent(EventDisconnected, Timeout)
}

// urdma, which does not answer probes, gets none.
func TestUrdmaIsNotAsked(t *testing.T) {
	s, _ := requested(t, 0)
	s.c.KeepAlive = quiet
	if err := s.c.Accept(s.now, s, s.c.local); err != nil {
		t.Fatal(err)
	}
	s.recv(data(0, 0))
	s.sent = nil
	s.pass(10 * quiet)
	s.wantNothing()
}
