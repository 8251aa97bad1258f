// SPDX-License-Identifier: BSD-2-Clause

package trp

import (
	"testing"

	"verbena/internal/monotime"
	"verbena/internal/simnet"
	wire "verbena/internal/wire/trp"
)

// Two hosts, several associations, a network that does everything wrong, and
// applications that send both ways, are slow to take, close or abort. First
// the faults, with partitions, then healing.
//
// Safety, checked all along: each segment comes up once, whole, at its place; acknowledged segments
// have come up; the books of each machine are in order. Liveness, checked at the end: each
// association reaches its end; one that was closed in order has delivered everything; no memory is
// held.
func TestSimulation(t *testing.T) {
	seeds := 100
	if testing.Short() {
		seeds = 10
	}
	outcomes := map[Reason]int{}
	for seed := range seeds {
		first := simulate(t, uint64(seed), outcomes)
		if seed%5 == 0 {
			if second := simulate(t, uint64(seed), outcomes); first != second {
				t.Fatalf("seed %d: two runs, traces %x and %x", seed, first, second)
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if !testing.Short() {
		for _, r := range []Reason{LocalClose, PeerClose, PeerAbort, Timeout} {
			if outcomes[r] == 0 {
				t.Errorf("no association of %d ended by %v: the faults are too weak", outcomes, r)
			}
		}
	}
}

func simulate(t *testing.T, seed uint64, outcomes map[Reason]int) uint64 {
	w := newWorld(t, seed)
	r := w.net.Rand
	if seed%2 == 1 {
		w.base = 1<<32 - uint64(r.IntN(100)) // PSNs wrap under way
	}
	w.net.Faults = simnet.Faults{
		Loss: r.IntN(150), Duplicate: r.IntN(100), Reorder: r.IntN(200), BitFlip: r.IntN(30), Truncate: r.IntN(30),
		Delay: monotime.Duration(10+r.IntN(2000)) * monotime.Microsecond, Jitter: monotime.Duration(r.IntN(5000)) * monotime.Microsecond,
	}
	clients := make([]*end, 1+r.IntN(5))
	w.server.onFresh = func(e *end) {
		for _, c := range clients {
			if c != nil && c.port == e.c.Peer().Port() {
				e.number, e.peer, c.peer = c.number, c, e
			}
		}
		w.plan(e)
		decide := func() {
			if e.c.State() != Requested {
				return
			}
			if err := e.c.Accept(w.net.Now(), e, wire.Setup{IRD: 1}); err != nil {
				t.Error(err)
			}
			w.server.listener.Answered(e.c)
			e.turn()
		}
		w.net.After(monotime.Duration(r.IntN(3000))*monotime.Millisecond, decide)
	}
	for i := range clients {
		w.net.After(monotime.Duration(r.IntN(1000))*monotime.Millisecond, func() {
			e := w.client.add(nil)
			clients[i] = e
			e.number = i
			w.plan(e)
			w.client.start(e, w.server, Config{Window: 64 << r.IntN(5)})
		})
	}
	for range r.IntN(4) {
		at := monotime.Duration(r.IntN(5000)) * monotime.Millisecond
		w.net.After(at, func() { w.net.Part(w.client.addr, w.server.addr, true) })
		w.net.After(at+monotime.Duration(r.IntN(4000))*monotime.Millisecond, func() { w.net.Part(w.client.addr, w.server.addr, false) })
	}
	w.run(6*monotime.Second, func() bool { return false })
	w.net.Heal()
	all := func() (all []*end) { return append(append(all, w.client.all...), w.server.all...) }
	done := func() bool { return len(w.client.ends) == 0 && len(w.server.ends) == 0 }
	w.run(60*monotime.Second, done)
	for _, e := range all() { // an end that is idle does not notice that the other gave up, as with TCP
		e.c.Close(w.net.Now())
		e.turn()
	}
	if !w.run(60*monotime.Second, done) {
		for _, e := range all() {
			t.Errorf("seed %d: port %d is %v after %v: %d of %d sent, %d acknowledged, %d up", seed, e.port, e.c.State(), e.events, e.sent, e.toSend, e.acked-w.base, e.next-w.base)
		}
	}
	if n := w.server.listener.Len() + w.server.listener.Waiting(); n != 0 {
		t.Errorf("seed %d: the listener knows %d", seed, n)
	}
	for _, e := range all() {
		w.judge(seed, e, outcomes)
	}
	if !w.pool.region.Idle() {
		t.Errorf("seed %d: memory is still held", seed)
	}
	return w.net.Hash()
}

// plan gives an end something to send and a way to end.
func (w *world) plan(e *end) {
	r := w.net.Rand
	salt, large := r.Uint64(), r.IntN(3) == 0
	e.size = func(seq uint64) int {
		h := (seq + salt) * 0x9e3779b97f4a7c15 >> 40
		if large {
			return int(1 + h%8192)
		}
		return int(1 + h%1024)
	}
	e.toSend = r.IntN(2000)
	e.refuse = r.IntN(50)
	abortAt := -1
	if r.IntN(5) == 0 {
		abortAt = r.IntN(2000)
	}
	ended := false
	e.onTurn = func(e *end) {
		if _, ok := e.had(EventEstablished); !ok || ended {
			return
		}
		now := w.net.Now()
		switch {
		case abortAt >= 0 && e.sent >= abortAt:
			ended = true
			e.c.Abort(now)
		case e.sent == e.toSend && int(e.next-w.base) >= e.peer.toSend/2: // part of them is enough
			ended, e.orderly = true, true
			e.c.Close(now)
		}
	}
}

// judge compares an end's events with the actions of both.
func (w *world) judge(seed uint64, e *end, outcomes map[Reason]int) {
	last := EventKind(0)
	for _, ev := range e.events {
		if ev.Kind <= last {
			w.t.Errorf("seed %d: port %d: events %v", seed, e.port, e.events)
		}
		last = ev.Kind
	}
	if last != EventClosed {
		w.t.Errorf("seed %d: port %d: the last event is %v", seed, e.port, last)
	}
	reason, ok := e.had(EventDisconnected)
	if !ok {
		return
	}
	outcomes[reason]++
	if reason == LocalClose && e.orderly && e.acked != w.base+uint64(e.toSend) {
		w.t.Errorf("seed %d: port %d: closed in order, and %d of %d are acknowledged", seed, e.port, e.acked-w.base, e.toSend)
	}
	if reason == PeerClose && e.peer.orderly && e.next != w.base+uint64(e.peer.toSend) {
		w.t.Errorf("seed %d: port %d: the peer closed in order, and %d of %d are here", seed, e.port, e.next-w.base, e.peer.toSend)
	}
}
