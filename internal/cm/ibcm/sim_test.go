// SPDX-License-Identifier: BSD-2-Clause

package ibcm

import (
	"math/rand/v2"
	"testing"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/wire/cm"
)

// The simulation has two agents and twenty connections. The network loses, doubles and reorders a
// third of all MADs. The applications take their time and sometimes refuse or destroy. First come
// the faults, then healing.
//
// Safety, checked all along: an event comes at most once and in an order that
// makes sense; both ends of an established connection hold the same parameters.
// Liveness, checked at the end: every connection reaches an end, and nothing is
// left of it.
func TestSimulation(t *testing.T) {
	seeds := 60
	if testing.Short() {
		seeds = 5
	}
	for seed := range seeds {
		first := simulate(t, uint64(seed))
		if second := simulate(t, uint64(seed)); first != second {
			t.Fatalf("seed %d: two runs, traces %x and %x", seed, first, second)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// life records one side's view of one connection.
type life struct {
	events []EventKind
	gone   bool
}

type simulation struct {
	*world
	r     *rand.Rand
	lives map[*node]map[ConnID]*life
	later []func() // the applications' next actions
}

func simulate(t *testing.T, seed uint64) uint64 {
	s := &simulation{world: newWorld(t), r: rand.New(rand.NewPCG(seed, 99)), lives: map[*node]map[ConnID]*life{}}
	s.delays = s.faulty
	s.listen()
	for _, n := range []*node{s.client, s.server} {
		s.lives[n] = map[ConnID]*life{}
		n.on = func(ev Event) { s.see(n, ev) }
	}
	for i := range 20 {
		p := connectParams()
		p.QPN, p.PSN = 0x100+ib.QPN(i), ib.PSN(s.r.Uint32N(1<<24))
		p.ResponseTimeout = uint8(16 + s.r.IntN(5))
		id, err := s.client.Connect(s.now, p)
		s.client.must(err)
		s.lives[s.client][id] = &life{}
		s.spend(monotime.Duration(s.r.IntN(3000)) * monotime.Millisecond)
	}
	s.spend(60 * monotime.Second)
	s.delays = func(int, *Datagram) []monotime.Duration { return []monotime.Duration{hop} }
	for range 40 { // healed: whatever is established is released
		s.spend(10 * monotime.Second)
		for _, n := range []*node{s.client, s.server} {
			for id := ConnID(1); id <= ConnID(n.lastID); id++ {
				if st, err := n.State(id); err == nil && st == Established {
					n.must(n.Disconnect(s.now, id, nil))
				}
			}
		}
	}
	for _, n := range []*node{s.client, s.server} {
		for id := ConnID(1); id <= ConnID(n.lastID); id++ {
			if st, err := n.State(id); err == nil && st != Closed {
				t.Errorf("seed %d: %v: connection %d is still %v after %v", seed, n.addr, id, st, s.lives[n][id].events)
			}
			n.Destroy(s.now, id)
		}
		if n.Len() != 0 {
			t.Errorf("seed %d: %v: %d connections left", seed, n.addr, n.Len())
		}
	}
	return s.hash
}

func (s *simulation) faulty(_ int, d *Datagram) []monotime.Duration {
	delay := func() monotime.Duration { return monotime.Duration(s.r.IntN(400)) * monotime.Millisecond }
	switch s.r.IntN(9) {
	case 0:
		return nil
	case 1:
		return []monotime.Duration{delay(), delay()}
	case 2:
		return []monotime.Duration{delay() * 20}
	}
	return []monotime.Duration{delay()}
}

// spend lets time pass, with applications acting in between.
func (s *simulation) spend(d monotime.Duration) {
	for end := s.now.Add(d); s.now < end; {
		s.run(min(end.Sub(s.now), monotime.Duration(1+s.r.IntN(300))*monotime.Millisecond))
		todo := s.later
		s.later = nil
		for _, f := range todo {
			if s.r.IntN(3) == 0 {
				s.later = append(s.later, f)
				continue
			}
			f()
		}
		s.agreement()
	}
}

// follows lists the events that may come after one; 0 is the beginning.
var follows = map[EventKind][]EventKind{
	0:                 {EventRequest, EventReply, EventRejected, EventUnreachable},
	EventRequest:      {EventEstablished, EventRejected, EventUnreachable, EventTimewaitExit},
	EventReply:        {EventDisconnected, EventRejected, EventTimewaitExit},
	EventEstablished:  {EventDisconnected},
	EventDisconnected: {EventTimewaitExit},
	EventRejected:     {EventTimewaitExit},
	EventUnreachable:  {EventTimewaitExit},
}

func (s *simulation) see(n *node, ev Event) {
	l := s.lives[n][ev.Conn]
	if l == nil {
		l = &life{}
		s.lives[n][ev.Conn] = l
	}
	last := EventKind(0)
	if len(l.events) > 0 {
		last = l.events[len(l.events)-1]
	}
	fits := false
	for _, k := range follows[last] {
		fits = fits || k == ev.Kind
	}
	if !fits || l.gone {
		s.t.Errorf("%v: connection %d: %v after %v (destroyed %v)", n.addr, ev.Conn, ev.Kind, l.events, l.gone)
	}
	l.events = append(l.events, ev.Kind)
	choice := s.r.IntN(10)
	s.later = append(s.later, func() { s.act(n, ev, l, choice) })
}

// act carries out the application's answer to an event, some time later. By then the connection may
// be over: commands may fail, but only for their state.
func (s *simulation) act(n *node, ev Event, l *life, choice int) {
	var err error
	switch {
	case choice == 0:
		n.Destroy(s.now, ev.Conn)
		l.gone = true
	case ev.Kind == EventRequest && choice == 1:
		err = n.Reject(s.now, ev.Conn, cm.RejConsumer, nil, []byte("no"))
	case ev.Kind == EventRequest:
		err = n.Accept(s.now, ev.Conn, AcceptParams{QPN: 0x1000 + ib.QPN(ev.Conn), PSN: ib.PSN(s.r.Uint32N(1 << 24)), ResponderResources: 3, InitiatorDepth: 2})
	case ev.Kind == EventReply:
		err = n.Establish(s.now, ev.Conn, nil)
	case ev.Kind == EventEstablished && choice < 4:
		err = n.Disconnect(s.now, ev.Conn, nil)
	case ev.Kind == EventDisconnected:
		if st, _ := n.State(ev.Conn); st == DreqRcvd {
			err = n.Disconnect(s.now, ev.Conn, nil)
		}
	}
	if _, wrongState := err.(*StateError); err != nil && !wrongState && !(err == ErrUnknown && l.gone) {
		s.t.Errorf("%v: %v of connection %d: %v", n.addr, ev.Kind, ev.Conn, err)
	}
}

// agreement holds both ends of every connection that both believe established
// against each other.
func (s *simulation) agreement() {
	for id := ConnID(1); id <= ConnID(s.client.lastID); id++ {
		c := s.client.conns[id]
		if c == nil || c.state != Established {
			continue
		}
		p := s.server.byLocal[c.remoteID]
		if p == nil || p.state != Established {
			continue
		}
		a, b := c.qp, p.qp
		if p.remoteID != c.localID || a.DestQPN != p.localQPN || b.DestQPN != c.localQPN || a.RQPSN != b.SQPSN || b.RQPSN != a.SQPSN ||
			a.PathMTU != b.PathMTU || a.MaxRdAtomic > b.MaxDestRdAtomic || b.MaxRdAtomic > a.MaxDestRdAtomic || a.RetryCnt != b.RetryCnt {
			s.t.Errorf("the ends of a connection differ:\n%+v\n%+v", a, b)
		}
	}
}

func BenchmarkHandshake(b *testing.B) {
	t := &testing.T{}
	w := newWorld(t)
	w.listen()
	for i := range b.N {
		p := connectParams()
		p.QPN = ib.QPN(2 + i%0xfffff0)
		id, err := w.client.Connect(w.now, p)
		if err != nil {
			b.Fatal(err)
		}
		w.run(monotime.Millisecond)
		w.client.Destroy(w.now, id)
		w.run(10 * monotime.Second)
		for _, ev := range w.server.events {
			w.server.Destroy(w.now, ev.Conn)
		}
		w.client.events, w.server.events, w.sent = nil, nil, nil
	}
}
