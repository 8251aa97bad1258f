// SPDX-License-Identifier: BSD-2-Clause

package ibcm

import (
	"net/netip"
	"slices"
	"testing"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/wire/cm"
)

// newSiege returns a world with a listener that gets forged requests: nobody answers
// at the addresses that they name.
func newSiege(t *testing.T, backlog int) *world {
	w := newWorld(t)
	w.delays = func(_ int, d *Datagram) []monotime.Duration {
		if d.Path.Remote != clientAddr && d.Path.Remote != serverAddr {
			return nil
		}
		return []monotime.Duration{hop}
	}
	for _, s := range []cm.ServiceID{rping, udaddy} {
		_, err := w.server.Listen(s, netip.Addr{}, backlog)
		w.server.must(err)
	}
	return w
}

// strangerAt is the n-th address of nobody.
func strangerAt(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 99, byte(n >> 8), byte(n)}) }

// forge has the server receive a REQ, the n-th from an address, that asks for the
// longest time-outs there are.
func (w *world) forge(from netip.Addr, n int) {
	req := w.forgedREQ(uint32(n + 1))
	req.LocalQPN += ib.QPN(n)
	req.Primary.LocalGID = gidOf(from)
	mad := encode(cm.AttrREQ, uint64(n), &req)
	w.server.HandleMAD(w.now, Path{Local: serverAddr, Remote: from}, mad[:])
	w.settle()
}

func (w *world) forgeSIDR(from netip.Addr, n int) {
	mad := encode(cm.AttrSIDRREQ, uint64(n), &cm.SIDRREQ{RequestID: uint32(n + 1), PKey: ib.DefaultPKey, ServiceID: udaddy})
	w.server.HandleMAD(w.now, Path{Local: serverAddr, Remote: from}, mad[:])
	w.settle()
}

// requests counts the strangers' requests that reached the application.
func (n *node) requests() (count int) {
	for _, ev := range n.events {
		if (ev.Kind == EventRequest || ev.Kind == EventSIDRRequest) && ev.Path.Remote != clientAddr {
			count++
		}
	}
	return count
}

// wantServed wants the client to be connected, and told of a datagram service, at once.
func (w *world) wantServed() {
	w.t.Helper()
	p := connectParams()
	p.QPN += ib.QPN(w.client.lastID)
	id, err := w.client.Connect(w.now, p)
	w.client.must(err)
	w.resolve()
	w.run(10 * monotime.Millisecond)
	w.client.wantState(id, Established)
	if !slices.Contains(w.client.kinds(), EventSIDRReply) {
		w.t.Errorf("the question is not answered: %v", w.client.kinds())
	}
}

// However many requests strangers forge, the application hears of none, their peers
// in real life are served at once, and nothing is left.
func TestForgedRequestsLockNobodyOut(t *testing.T) {
	for name, from := range map[string]func(n int) netip.Addr{
		"many addresses": strangerAt, "one address": func(int) netip.Addr { return strangerAt(1) },
	} {
		for what, forge := range map[string]func(w *world, from netip.Addr, n int){"REQ": (*world).forge, "SIDR_REQ": (*world).forgeSIDR} {
			t.Run(name+" "+what, func(t *testing.T) {
				w := newSiege(t, 0)
				for n := range 5000 {
					forge(w, from(n), n)
				}
				w.wantServed()
				for n := range 100 { // and while it goes on
					forge(w, from(6000+n), 6000+n)
				}
				w.wantServed()
				if n := w.server.requests(); n != 0 {
					t.Errorf("the application heard of %d requests", n)
				}
				if w.server.halfOpen != 0 {
					t.Errorf("%d half open", w.server.halfOpen)
				}
			})
		}
	}
}

// Requests of strangers do not close a listener with a small backlog whose application
// is slow.
func TestForgedRequestsFillNoBacklog(t *testing.T) {
	for _, backlog := range []int{1, 2, 5} {
		w := newSiege(t, backlog)
		w.server.on = func(Event) {} // it is at something else
		for n := range 10 {
			w.forge(strangerAt(n), n)
		}
		w.connect()
		w.run(monotime.Millisecond)
		if n := len(w.server.events); n != 1 || w.server.events[0].Path.Remote != clientAddr {
			t.Errorf("backlog %d: %v", backlog, w.server.events)
		}
	}
}

// A request counts until the application has answered it, whatever has become of its
// peer: peers that take theirs back do not have the application hear of more.
func TestRequestsTakenBackCountOn(t *testing.T) {
	w := newSiege(t, 5)
	w.server.on = func(Event) {}
	for n := range 10 {
		p := connectParams()
		p.QPN += ib.QPN(n)
		id, err := w.client.Connect(w.now, p)
		w.client.must(err)
		w.run(10 * hop)
		w.client.Destroy(w.now, id)
		w.run(10 * hop)
	}
	if n := len(w.server.events); n != 10 || w.server.listeners[1].waiting != 5 { // 5 requests, each with its REJ
		t.Errorf("%v, %d wait", w.server.kinds(), w.server.listeners[1].waiting)
	}
	for _, ev := range w.server.events {
		w.server.Destroy(w.now, ev.Conn)
	}
	if w.server.listeners[1].waiting != 0 || w.server.Len() != 0 {
		t.Errorf("%d wait, %d are left", w.server.listeners[1].waiting, w.server.Len())
	}
}

// Whatever is asked in another's name, that other gets no more than a few MADs.
func TestAForgedRequestIsAnsweredWithFewMADs(t *testing.T) {
	w := newSiege(t, 0)
	w.forge(strangerAt(1), 1)
	w.run(60 * 60 * monotime.Second)
	w.wantSent(cm.AttrDREQ, cm.AttrDREQ, cm.AttrDREQ, cm.AttrDREQ, cm.AttrDREQ, cm.AttrSIDRREQ)
	w.server.wantCount(Probed, 6)
}

// A manager that passes over a DREQ for no connection answers the last challenge, as every
// manager has to.
func TestPeerThatAnswersNoProbeIsAskedForAService(t *testing.T) {
	w := newSiege(t, 0)
	w.delays = func(_ int, d *Datagram) []monotime.Duration {
		if h, _, _ := cm.ParseHeader(d.MAD[:]); h.Attribute == cm.AttrDREP {
			return nil
		}
		return []monotime.Duration{hop}
	}
	id := w.connect()
	w.run(heldPause * heldAsks)
	w.client.wantState(id, Established)
	w.server.wantEvents(EventRequest, EventEstablished)
}

// A peer that is there may wait for as long as the application takes.
func TestSlowApplicationKeepsAPeerThatIsThere(t *testing.T) {
	w := newSiege(t, 0)
	w.server.on = func(Event) {}
	id := w.connect()
	w.run(60 * monotime.Second)
	w.server.on = w.server.obliging
	w.server.obliging(w.server.events[0])
	w.run(monotime.Second)
	w.client.wantState(id, Established)
	w.server.wantCount(Probed, 2)
}

// A client whose application takes its time asks for patience.
func TestSlowClientIsWaitedFor(t *testing.T) {
	w := newSiege(t, 0)
	w.client.on = func(Event) {}
	id := w.connect()
	w.run(60 * monotime.Second)
	w.client.obliging(w.client.events[0])
	w.run(monotime.Second)
	w.client.wantState(id, Established)
	w.server.wantState(w.accepted(), Established)
}

// A peer that has answered a probe may be stopped for as long as it has asked for.
func TestPeerThatHasShownItselfIsWaitedFor(t *testing.T) {
	w := newSiege(t, 0)
	stopped := false
	w.delays = func(_ int, d *Datagram) []monotime.Duration {
		if h, _, _ := cm.ParseHeader(d.MAD[:]); h.Attribute == cm.AttrREP {
			stopped = true
		}
		if stopped {
			return nil
		}
		return []monotime.Duration{hop}
	}
	id := w.connect()
	w.run(60 * monotime.Second)
	w.server.wantState(w.accepted(), RepSent)
	w.delays = func(int, *Datagram) []monotime.Duration { return []monotime.Duration{hop} }
	w.run(10 * monotime.Second)
	w.client.wantState(id, Established)
	w.server.wantState(w.accepted(), Established)
}

// Probes may be lost, or their answers.
func TestLostProbesAreSentAgain(t *testing.T) {
	for lost := range 4 {
		w := newSiege(t, 0)
		n := 0
		w.delays = func(_ int, d *Datagram) []monotime.Duration {
			if h, _, _ := cm.ParseHeader(d.MAD[:]); h.Attribute == cm.AttrDREQ || h.Attribute == cm.AttrDREP {
				if n++; n <= lost {
					return nil
				}
			}
			return []monotime.Duration{hop}
		}
		id := w.connect()
		w.run(monotime.Second)
		w.client.wantState(id, Established)
		w.server.wantCount(Held, 1)
	}
}

// A forged request names the address of a host that has a connection manager, which
// answers every probe: it denies the request.
func TestForgedRequestInALivePeersName(t *testing.T) {
	w := newSiege(t, 0)
	for n := range 100 {
		w.forge(clientAddr, n)
		w.run(monotime.Millisecond)
	}
	w.server.wantEvents()
	w.server.wantCount(Held, 100)
	w.server.wantCount(Unproven, 100)
}

// The oldest of the requests that wait for a sign of their peers gives way. It does so only to one
// that may be of the same address.
func TestHeldRequestsOldestGivesWay(t *testing.T) {
	w := newSiege(t, 0)
	w.delays = func(int, *Datagram) []monotime.Duration { return nil }
	drep := func(of *held) {
		mad := encode(cm.AttrDREP, of.tid, &cm.DREP{RemoteCommID: 7})
		w.server.HandleMAD(w.now, of.path, mad[:])
		w.settle()
	}
	var early held
	for n := range 3 * heldOfOne {
		w.forge(strangerAt(1), n)
		if n == 0 {
			early = *w.server.holding.of(strangerAt(1))[0]
		}
	}
	all := w.server.holding.of(strangerAt(1))
	if len(all) != heldOfOne {
		t.Fatalf("%d requests of one address are held", len(all))
	}
	drep(&early)
	w.server.wantEvents()
	for n := range 100_000 {
		w.forge(strangerAt(n), n)
	}
	total := 0
	for _, b := range w.server.holding.buckets {
		total += len(b.all)
	}
	if total > heldBuckets*heldOfOne {
		t.Errorf("%d requests are held", total)
	}
	last := w.server.holding.of(strangerAt(99_999 & 0xffff))
	drep(last[len(last)-1])
	w.server.wantEvents(EventRequest)
}

// An answer is one to the probe, from where the request came from, and soon.
func TestWhatProvesAnAddress(t *testing.T) {
	for name, c := range map[string]struct {
		spoil  func(tid *uint64, path *Path)
		after  monotime.Duration
		proves bool
	}{
		"the answer":        {func(*uint64, *Path) {}, 0, true},
		"late":              {func(*uint64, *Path) {}, heldLife + 1, false},
		"another id":        {func(tid *uint64, _ *Path) { *tid ^= 1 << 40 }, 0, false},
		"from another":      {func(_ *uint64, path *Path) { path.Remote = strangerAt(2) }, 0, false},
		"to another of us":  {func(_ *uint64, path *Path) { path.Local = strangerAt(2) }, 0, false},
		"of no transaction": {func(tid *uint64, _ *Path) { *tid = 0 }, 0, false},
	} {
		w := newSiege(t, 0)
		w.forge(strangerAt(1), 1)
		h := w.server.holding.of(strangerAt(1))[0]
		tid, path := h.tid, h.path
		c.spoil(&tid, &path)
		w.now = w.now.Add(c.after)
		mad := encode(cm.AttrDREP, tid, &cm.DREP{RemoteCommID: 7})
		for range 2 { // once is enough
			w.server.HandleMAD(w.now, path, mad[:])
			w.settle()
		}
		if got := w.server.requests(); got != count(c.proves) {
			t.Errorf("%s: %d requests", name, got)
		}
	}
}

// The number of remembered requests of proven peers is bounded, too.
func TestAnswersRememberedAreBounded(t *testing.T) {
	w := newWorld(t)
	_, err := w.server.Listen(udaddy, netip.Addr{}, 0)
	w.server.must(err)
	for range 2 * maxRemembered {
		w.resolve()
		w.run(monotime.Millisecond)
		w.server.Destroy(w.now, w.server.events[len(w.server.events)-1].Conn)
	}
	if n := w.server.Len(); n > maxRemembered || n < maxRemembered/2 {
		t.Errorf("%d are remembered", n)
	}
	w.run(rememberFor + monotime.Second)
	if n := w.server.Len(); n != 0 || len(w.server.remembered) != 0 {
		t.Errorf("%d are remembered for ever, %d in the list", n, len(w.server.remembered))
	}
}

// Requests that wait for a listener are few of each address, the newest of them.
func TestEarlyRequestsAreBoundedPerSource(t *testing.T) {
	w := newSiege(t, 0)
	soon := cm.NewServiceID(cm.PortSpaceTCP, 9)
	w.server.Expect(w.now, soon)
	ask := func(from netip.Addr, n int) {
		req := w.forgedREQ(uint32(n + 1))
		req.ServiceID, req.Primary.LocalGID = soon, gidOf(from)
		mad := encode(cm.AttrREQ, uint64(n), &req)
		w.server.HandleMAD(w.now, Path{Local: serverAddr, Remote: from}, mad[:])
	}
	ask(clientAddr, 0)
	for n := range 3 * maxEarlyOfOne {
		ask(strangerAt(1), n)
	}
	if n := len(w.server.early); n != 1+maxEarlyOfOne || w.server.early[0].path.Remote != clientAddr {
		t.Errorf("%d wait", n)
	}
	for n := range 2 * maxEarly {
		ask(strangerAt(100+n), n)
	}
	if e := w.server.early; len(e) != maxEarly || e[maxEarly-1].path.Remote != strangerAt(100+2*maxEarly-1) || w.server.pending != maxEarly {
		t.Errorf("%d wait, %d pending", len(e), w.server.pending)
	}
}

// A program connects many queue pairs at once, more than a backlog holds or one address
// may have half open: each has its turn as soon as there is room, without a time-out.
func TestProvenRequestsWaitForRoom(t *testing.T) {
	for name, c := range map[string]struct {
		backlog, halfOpen int
		counts            Counter
	}{"backlog": {2, 4096, BacklogFull}, "half open": {0, 8, ConnsFull}} {
		t.Run(name, func(t *testing.T) {
			w := newSiege(t, c.backlog)
			w.server.MaxHalfOpen = c.halfOpen
			var asked []Event
			w.server.on = func(ev Event) { asked = append(asked, ev) }
			const all = 100
			for i := range all {
				p := connectParams()
				p.QPN += ib.QPN(i)
				_, err := w.client.Connect(w.now, p)
				w.client.must(err)
			}
			for range 5 * all { // the application answers one request each millisecond
				w.run(monotime.Millisecond)
				if len(asked) > 0 {
					w.server.obliging(asked[0])
					asked = asked[1:]
				}
			}
			established := 0
			for _, k := range w.server.kinds() {
				established += count(k == EventEstablished)
			}
			if established != all || w.client.count[Retried] != 0 {
				t.Errorf("%d of %d established, %d MADs sent again", established, all, w.client.count[Retried])
			}
			if n := w.server.count[c.counts]; n < all/2 || n > all {
				t.Errorf("%d had to wait", n)
			}
			if t := w.server.holding; t.ready != 0 || t.nextAsk() == 0 {
				w.t.Errorf("%d still wait", t.ready)
			}
		})
	}
}

// One address that has proven itself cannot have all that is half open.
func TestHalfOpenConnectionsAreBoundedPerSource(t *testing.T) {
	w := newSiege(t, 0)
	w.server.MaxHalfOpen = 40
	w.client.on = func(Event) {} // it says nothing to a REP
	for i := range 40 {
		p := connectParams()
		p.QPN += ib.QPN(i)
		_, err := w.client.Connect(w.now, p)
		w.client.must(err)
		w.run(hop * 4)
	}
	if n := w.server.halfOpen; n != 10 {
		t.Errorf("%d of 40 are half open", n)
	}
	w.server.wantCount(ConnsFull, 30)
}

// of returns the held requests that name an address. The oldest
// is the first.
func (t *holding) of(from netip.Addr) (all []*held) {
	b := &t.buckets[t.bucket(from)]
	for i := range b.all {
		if h := &b.all[(b.next+i)%len(b.all)]; h.path.Remote == from {
			all = append(all, h)
		}
	}
	return all
}

// TestOwnRequestsAreNotAsked has a request whose sender is certain reach the application at once,
// without a message to its peer. Beyond the backlog it waits as others do.
func TestOwnRequestsAreNotAsked(t *testing.T) {
	w := newSiege(t, 2)
	w.server.on = func(Event) {}
	for n := range 3 {
		req := w.forgedREQ(uint32(n + 1))
		req.LocalQPN += ib.QPN(n)
		mad := encode(cm.AttrREQ, uint64(n+1), &req)
		w.server.HandleOwnMAD(w.now, Path{Local: serverAddr, Remote: clientAddr}, mad[:])
		var d Datagram
		if w.server.PollOutput(&d) {
			h, _, _ := cm.ParseHeader(d.MAD[:])
			t.Fatalf("request %d is answered by %v", n, h.Attribute)
		}
	}
	w.settle()
	var asked []ConnID
	for _, ev := range w.server.events {
		if ev.Kind == EventRequest {
			asked = append(asked, ev.Conn)
		}
	}
	if len(asked) != 2 || w.server.count[BacklogFull] != 1 {
		t.Fatalf("%d requests, %d over the backlog", len(asked), w.server.count[BacklogFull])
	}
	w.server.must(w.server.Reject(w.now, asked[0], cm.RejConsumer, nil, nil))
	w.settle()
	if last := w.server.events[len(w.server.events)-1]; last.Kind != EventRequest {
		t.Errorf("%v follows the refusal, not the request that waited", last.Kind)
	}
}

// TestAnswersToStrangersLeaveRoom has strangers ask more than an agent can answer for now, and then
// its own application connect: there is room for its REQ.
func TestAnswersToStrangersLeaveRoom(t *testing.T) {
	w := newSiege(t, 0)
	for n := range maxOutput {
		req := w.forgedREQ(uint32(n + 1))
		mad := encode(cm.AttrREQ, uint64(n), &req)
		w.server.HandleMAD(w.now, Path{Local: serverAddr, Remote: clientAddr}, mad[:])
	}
	p := connectParams()
	p.Path = Path{Local: serverAddr, Remote: clientAddr}
	_, err := w.server.Connect(w.now, p)
	w.server.must(err)
	var out []Datagram
	for d := (Datagram{}); w.server.PollOutput(&d); {
		out = append(out, d)
	}
	if n := len(out); n != maxAnswers+1 || RouteOf(out[n-1].MAD[:]).Target != ToListener {
		t.Errorf("%d MADs, the last for %+v", n, RouteOf(out[n-1].MAD[:]))
	}
}

// TestOutputPutBackIsNext has MADs that could not be sent come before those after them, also when
// the queue has ended meanwhile.
func TestOutputPutBackIsNext(t *testing.T) {
	a := New(Config{Random: func() uint64 { return 1 }})
	poll := func(want ...byte) (all []Datagram) {
		t.Helper()
		for _, b := range want {
			var d Datagram
			if !a.PollOutput(&d) || d.MAD[0] != b {
				t.Errorf("MAD %d, want %d", d.MAD[0], b)
			}
			all = append(all, d)
		}
		return all
	}
	for i := range byte(4) {
		a.send(Path{}, &MAD{i})
	}
	a.PutBack(poll(0, 1, 2)[1:])
	all := poll(1, 2, 3)
	if a.PollOutput(&Datagram{}) || a.Waiting() {
		t.Error("there is more")
	}
	a.send(Path{}, &MAD{4})
	a.PutBack(all[1:])
	poll(2, 3, 4)
	if a.PollOutput(&Datagram{}) {
		t.Error("there is more")
	}
}
