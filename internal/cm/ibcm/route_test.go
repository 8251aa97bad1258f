// SPDX-License-Identifier: BSD-2-Clause

package ibcm

import (
	"testing"

	"verbena/internal/monotime"
	"verbena/internal/wire/cm"
)

func TestEveryMADOfAConnectionReachesItsProcess(t *testing.T) {
	w := newWorld(t)
	w.delays = func(_ int, d *Datagram) []monotime.Duration {
		h, _, _ := cm.ParseHeader(d.MAD[:])
		want := Route{Target: ToSlot, Slot: w.node4(d.Path.Remote).Slot}
		if h.Attribute == cm.AttrREQ {
			want = Route{Target: ToListener, ServiceID: rping}
		}
		if h.Attribute == cm.AttrSIDRREQ {
			want = Route{Target: ToListener, ServiceID: udaddy}
		}
		if got := RouteOf(d.MAD[:]); got != want {
			t.Errorf("%v goes to %+v, want %+v", h.Attribute, got, want)
		}
		return []monotime.Duration{hop}
	}
	w.listen()
	id := w.connect()
	w.resolve()
	w.run(monotime.Second)
	w.client.must(w.client.Disconnect(w.now, id, nil))
	w.run(monotime.Second)
	if len(w.sent) != 7+3 { // 3: the REQ was challenged
		t.Errorf("sent %v", w.sent)
	}
}

func TestRouteOfOtherMADs(t *testing.T) {
	drep := encode(cm.AttrDREP, 1, &cm.DREP{LocalCommID: 5})
	if r := RouteOf(drep[:]); r.Target != ToAll {
		t.Errorf("a DREP without our id goes to %+v", r)
	}
	rej := encode(cm.AttrREJ, 1, &cm.REJ{LocalCommID: 5, Reason: cm.RejTimeout})
	if r := RouteOf(rej[:]); r.Target != ToAll {
		t.Errorf("a REJ without our id goes to %+v", r)
	}
	for i := range rej {
		if r := RouteOf(rej[:i]); r != (Route{}) {
			t.Errorf("%d bytes go to %+v", i, r)
		}
	}
	rej[17] = 1
	if r := RouteOf(rej[:]); r != (Route{}) {
		t.Errorf("class port info goes to %+v", r)
	}
}

// A process is killed; the process that holds its last will sends it, and the peer learns at
// once.
func TestWillEndsTheConnectionAtThePeer(t *testing.T) {
	w := newWorld(t)
	w.listen()
	id := w.connect()
	if _, ok := w.client.Will(id); ok {
		t.Error("a will before there is a connection")
	}
	w.run(monotime.Second)
	will, ok := w.client.Will(id)
	if !ok || will.Path != (Path{clientAddr, serverAddr}) {
		t.Fatalf("no will, or to %v", will.Path)
	}
	w.client = w.node(clientAddr, 3) // the heir knows nothing of the connection
	w.launch(will)
	w.run(monotime.Second)
	w.server.wantEvents(EventRequest, EventEstablished, EventDisconnected, EventTimewaitExit)
}
