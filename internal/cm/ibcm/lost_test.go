// SPDX-License-Identifier: BSD-2-Clause

package ibcm

import (
	"slices"
	"testing"

	"verbena/internal/monotime"
	"verbena/internal/wire/cm"
)

func anyPath(*Lost) bool { return true }

// A path is lost at each step of a connection's life: each side is told once how it
// ended, and nothing is sent, or left to be sent, any more.
func TestLostPathEndsWhatIsOnIt(t *testing.T) {
	for _, c := range []struct {
		name           string
		until          cm.Attribute // the last that arrives
		on             func(w *world)
		client, server []EventKind
	}{
		{"REQ under way", 0, nil, []EventKind{EventUnreachable}, nil},
		{"requested", cm.AttrDREP, func(w *world) { w.server.on = func(Event) {} }, []EventKind{EventUnreachable}, []EventKind{EventRequest, EventUnreachable}},
		{"patience asked for", cm.AttrMRA, func(w *world) {
			w.server.on = func(ev Event) {
				if ev.Kind == EventRequest {
					w.server.must(w.server.MRA(ev.Conn, 20, nil))
				}
			}
		}, []EventKind{EventUnreachable}, []EventKind{EventRequest, EventUnreachable}},
		{"REP under way", cm.AttrDREP, nil, []EventKind{EventUnreachable}, []EventKind{EventRequest, EventUnreachable}},
		{"replied", cm.AttrREP, func(w *world) { w.client.on = func(Event) {} }, []EventKind{EventReply, EventUnreachable}, []EventKind{EventRequest, EventUnreachable}},
		{"established", cm.AttrRTU, nil, []EventKind{EventReply, EventDisconnected}, []EventKind{EventRequest, EventEstablished, EventDisconnected}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.listen()
			if c.on != nil {
				c.on(w)
			}
			arrives := c.until != 0
			w.delays = func(_ int, d *Datagram) []monotime.Duration {
				h, _, _ := cm.ParseHeader(d.MAD[:])
				if !arrives {
					return nil
				}
				arrives = h.Attribute != c.until
				return []monotime.Duration{hop}
			}
			w.connect()
			w.run(monotime.Second)
			sent := len(w.sent)
			for _, n := range []*node{w.client, w.server} {
				n.Lose(w.now, func(*Lost) bool { return false })
				n.Lose(w.now, anyPath)
				n.Lose(w.now, anyPath)
				n.on = func(Event) {}
			}
			w.settle()
			for _, ev := range w.server.events {
				if ev.Kind == EventRequest {
					if err := w.server.Accept(w.now, ev.Conn, AcceptParams{QPN: 9}); err == nil {
						t.Error("a request is accepted whose peer is gone")
					}
				}
			}
			for range 10 {
				w.run(60 * monotime.Second)
			}
			exits := func(n *node) (k []EventKind) {
				for _, e := range n.kinds() {
					if e != EventTimewaitExit {
						k = append(k, e)
					}
				}
				return k
			}
			if got := exits(w.client); !slices.Equal(got, c.client) {
				t.Errorf("the client saw %v, want %v", got, c.client)
			}
			if got := exits(w.server); !slices.Equal(got, c.server) {
				t.Errorf("the server saw %v, want %v", got, c.server)
			}
			if len(w.sent) != sent || w.client.Pending()+w.server.Pending() != 0 {
				t.Errorf("sent %v after the loss, %d and %d pending", w.sent[sent:], w.client.Pending(), w.server.Pending())
			}
			for _, n := range []*node{w.client, w.server} {
				n.Close(w.now)
				if n.Len() != 0 {
					t.Errorf("%d connections are left", n.Len())
				}
			}
		})
	}
}

// One side has asked for the release already, or has been asked.
func TestLostPathEndsAReleaseUnderWay(t *testing.T) {
	w := newWorld(t)
	w.listen()
	id := w.connect()
	w.run(monotime.Second)
	w.server.on = func(Event) {} // it does not answer
	w.client.must(w.client.Disconnect(w.now, id, nil))
	w.run(monotime.Second)
	w.client.wantState(id, DreqSent)
	w.server.wantState(w.accepted(), DreqRcvd)
	w.client.Lose(w.now, anyPath)
	w.server.Lose(w.now, anyPath)
	w.settle()
	w.client.wantEvents(EventReply, EventDisconnected)
	w.server.wantEvents(EventRequest, EventEstablished, EventDisconnected)
	w.client.wantState(id, Timewait)
	w.server.wantState(w.accepted(), Timewait)
	w.client.wantCount(PathLost, 1)
}
