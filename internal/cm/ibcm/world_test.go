// SPDX-License-Identifier: BSD-2-Clause

package ibcm

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/wire/cm"
)

var (
	clientAddr = netip.MustParseAddr("10.77.0.3")
	serverAddr = netip.MustParseAddr("10.77.0.2")
	rping      = cm.NewServiceID(cm.PortSpaceTCP, 7174)
)

// world is two agents, a network between them and one clock. delays decides what happens to each
// MAD in the network.
type world struct {
	t              *testing.T
	now            monotime.Time
	client, server *node
	flying         []flight
	seq            int
	delays         func(n int, d *Datagram) []monotime.Duration // delays of the copies that arrive; none is lost
	sent           []cm.Attribute
	hash           uint64
}

type flight struct {
	at  monotime.Time
	seq int
	d   Datagram
}

// node is an agent with a record of its application's events.
type node struct {
	*Agent
	w      *world
	addr   netip.Addr
	events []Event
	on     func(ev Event) // the application
}

const hop = 50 * monotime.Microsecond

func newWorld(t *testing.T) *world {
	w := &world{t: t, delays: func(int, *Datagram) []monotime.Duration { return []monotime.Duration{hop} }}
	w.client = w.node(clientAddr, 1)
	w.server = w.node(serverAddr, 2)
	return w
}

func (w *world) node(addr netip.Addr, slot uint16) *node {
	n := &node{w: w, addr: addr}
	r := rand.New(rand.NewPCG(uint64(slot), 7))
	n.Agent = New(Config{GUID: ib.GUID(0x505400fffe770000 + uint64(slot)), Slot: slot, Random: r.Uint64, ACKDelay: 15, Trace: w.trace(slot)})
	n.on = n.obliging
	return n
}

// trace folds every change of state into one hash: two runs of one seed agree.
func (w *world) trace(slot uint16) func(ConnID, State, State) {
	return func(id ConnID, from, to State) {
		h := fnv.New64a()
		fmt.Fprint(h, w.hash, slot, id, from, to, w.now)
		w.hash = h.Sum64()
	}
}

// obliging is an application that says yes to everything.
func (n *node) obliging(ev Event) {
	switch ev.Kind {
	case EventRequest:
		n.must(n.Accept(n.w.now, ev.Conn, AcceptParams{QPN: 0x20 + ib.QPN(ev.Conn), PSN: 0x222, ResponderResources: 2, InitiatorDepth: 3, RNRRetryCount: 5}))
	case EventReply:
		n.must(n.Establish(n.w.now, ev.Conn, nil))
	case EventDisconnected:
		if s, _ := n.State(ev.Conn); s == DreqRcvd {
			n.must(n.Disconnect(n.w.now, ev.Conn, nil))
		}
	case EventSIDRRequest:
		n.must(n.ReplySIDR(n.w.now, ev.Conn, SIDRReply{QPN: 0x31, QKey: 0x01234567, PrivateData: []byte("hi")}))
	}
}

// answerChallenges answers the challenges that the agent has just sent as a peer does that
// has sent the requests.
func (n *node) answerChallenges(now monotime.Time) {
	for len(n.out) > n.outHead {
		d := n.out[len(n.out)-1]
		h, data, _ := cm.ParseHeader(d.MAD[:])
		m, _, _ := cm.ParseDREQ(data)
		if h.Attribute != cm.AttrDREQ || m.RemoteQPN != noQP {
			return
		}
		n.out = n.out[:len(n.out)-1]
		if h.TransactionID&denial == 0 {
			mad := encode(cm.AttrDREP, h.TransactionID, &cm.DREP{LocalCommID: m.RemoteCommID, RemoteCommID: m.LocalCommID})
			defer n.HandleMAD(now, d.Path, mad[:])
		}
	}
}

func (n *node) must(err error) {
	if err != nil {
		n.w.t.Helper()
		n.w.t.Errorf("%v: %v", n.addr, err)
	}
}

func (w *world) node4(addr netip.Addr) *node {
	if addr == clientAddr {
		return w.client
	}
	return w.server
}

// settle lets applications act and puts the agents' messages on the wire.
func (w *world) settle() {
	for busy := true; busy; {
		busy = false
		for _, n := range []*node{w.client, w.server} {
			for ev, ok := n.PollEvent(); ok; ev, ok = n.PollEvent() {
				n.events = append(n.events, ev)
				n.on(ev)
				busy = true
			}
			var d Datagram
			for n.PollOutput(&d) {
				w.launch(d)
			}
		}
	}
}

func (w *world) launch(d Datagram) {
	h, _, _ := cm.ParseHeader(d.MAD[:])
	w.sent = append(w.sent, h.Attribute)
	for _, delay := range w.delays(len(w.sent)-1, &d) {
		w.seq++
		w.flying = append(w.flying, flight{w.now.Add(delay), w.seq, d})
	}
}

// step goes to the next thing that happens; false if nothing will.
func (w *world) step(limit monotime.Time) bool {
	w.settle()
	next, what := monotime.Never, -1
	for i, f := range w.flying {
		if f.at < next || f.at == next && what >= 0 && f.seq < w.flying[what].seq {
			next, what = f.at, i
		}
	}
	for _, n := range []*node{w.client, w.server} {
		if t, ok := n.NextTimeout(); ok && t < next {
			next, what = t, -1
		}
	}
	if next == monotime.Never || next > limit {
		w.now = max(w.now, min(limit, next))
		return false
	}
	w.now = max(w.now, next)
	if what < 0 {
		w.client.HandleTimeout(w.now)
		w.server.HandleTimeout(w.now)
		return true
	}
	d := w.flying[what].d
	w.flying = slices.Delete(w.flying, what, what+1)
	w.node4(d.Path.Remote).HandleMAD(w.now, Path{Local: d.Path.Remote, Remote: d.Path.Local}, d.MAD[:])
	return true
}

// run goes on for a time, or until nothing more happens.
func (w *world) run(d monotime.Duration) {
	for limit := w.now.Add(d); w.step(limit); {
	}
}

func (n *node) kinds() (k []EventKind) {
	for _, ev := range n.events {
		k = append(k, ev.Kind)
	}
	return k
}

func (n *node) wantEvents(want ...EventKind) {
	n.w.t.Helper()
	if got := n.kinds(); !slices.Equal(got, want) {
		n.w.t.Errorf("%v saw %v, want %v", n.addr, got, want)
	}
}

func (w *world) wantSent(want ...cm.Attribute) {
	w.t.Helper()
	if !slices.Equal(w.sent, want) {
		w.t.Errorf("on the wire %v, want %v", w.sent, want)
	}
}

func (n *node) wantState(id ConnID, want State) {
	n.w.t.Helper()
	if got, err := n.State(id); got != want || err != nil {
		n.w.t.Errorf("%v: connection %d is %v (%v), want %v", n.addr, id, got, err, want)
	}
}

func (n *node) wantCount(c Counter, want uint64) {
	n.w.t.Helper()
	if got := n.count[c]; got != want {
		n.w.t.Errorf("%v counted %d %v, want %d", n.addr, got, c, want)
	}
}

func connectParams() ConnectParams {
	return ConnectParams{
		Path: Path{Local: clientAddr, Remote: serverAddr}, ServiceID: rping, QPN: 0x11, PSN: 0x111, PathMTU: ib.MTU1024,
		ResponderResources: 4, InitiatorDepth: 5, RetryCount: 6, RNRRetryCount: 7, PrivateData: []byte("hello"),
	}
}

// connect starts a connection from client to server.
func (w *world) connect() ConnID {
	w.t.Helper()
	id, err := w.client.Connect(w.now, connectParams())
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

func (w *world) listen() ListenerID {
	w.t.Helper()
	id, err := w.server.Listen(rping, netip.Addr{}, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

// accepted is the server's connection of the first request.
func (w *world) accepted() ConnID {
	w.t.Helper()
	for _, ev := range w.server.events {
		if ev.Kind == EventRequest {
			return ev.Conn
		}
	}
	w.t.Fatal("no request")
	return 0
}
