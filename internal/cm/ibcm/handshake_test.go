// SPDX-License-Identifier: BSD-2-Clause

package ibcm

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/wire/cm"
)

// challenged is on the wire before a REP: the REQ, two probes, and the answer to the second.
var challenged = []cm.Attribute{cm.AttrREQ, cm.AttrDREQ, cm.AttrDREQ, cm.AttrDREP}

func TestHandshakeAgreesOnWhatQueuePairsNeed(t *testing.T) {
	w := newWorld(t)
	w.listen()
	id := w.connect()
	w.run(monotime.Second)
	w.wantSent(append(challenged, cm.AttrREP, cm.AttrRTU)...)
	w.client.wantEvents(EventReply)
	w.server.wantEvents(EventRequest, EventEstablished)
	w.client.wantState(id, Established)
	w.server.wantState(w.accepted(), Established)

	req := w.server.events[0]
	if want := (Params{
		RemoteGUID: w.client.GUID, RemoteQPN: 0x11, RemotePSN: 0x111, PathMTU: ib.MTU1024, ResponderResources: 5, InitiatorDepth: 4,
		RetryCount: 6, RNRRetryCount: 7,
	}); req.Params != want {
		t.Errorf("the request says %+v, want %+v", req.Params, want)
	}
	if len(req.PrivateData) != cm.REQPrivateSize || !bytes.HasPrefix(req.PrivateData, []byte("hello\x00")) {
		t.Errorf("private data %q", req.PrivateData)
	}
	// Linux: the peer's RNR retry count governs the sender, the REP's depths
	// bound the active side, the REQ's retry count holds for both.
	active, _ := w.client.QPParams(id)
	if want := (QPParams{
		Path: Path{clientAddr, serverAddr}, DestQPN: 0x22, RQPSN: 0x111, SQPSN: 0x222, PathMTU: ib.MTU1024, MaxRdAtomic: 2,
		MaxDestRdAtomic: 3, Timeout: 17, RetryCnt: 6, RNRRetry: 5,
	}); active != want {
		t.Errorf("active side %+v, want %+v", active, want)
	}
	passive, _ := w.server.QPParams(w.accepted())
	if want := (QPParams{
		Path: Path{serverAddr, clientAddr}, DestQPN: 0x11, RQPSN: 0x222, SQPSN: 0x111, PathMTU: ib.MTU1024, MaxRdAtomic: 3,
		MaxDestRdAtomic: 2, Timeout: 17, RetryCnt: 6, RNRRetry: 7,
	}); passive != want {
		t.Errorf("passive side %+v, want %+v", passive, want)
	}
}

// Linux: the target of XRC says its number in the EE context field, the
// initiator asks for nothing that it has no queue for.
func TestXRCHandshake(t *testing.T) {
	w := newWorld(t)
	w.listen()
	var req cm.REQ
	var rep cm.REP
	w.delays = func(_ int, d *Datagram) []monotime.Duration {
		switch h, data, _ := cm.ParseHeader(d.MAD[:]); h.Attribute {
		case cm.AttrREQ:
			req, _, _ = cm.ParseREQ(data)
		case cm.AttrREP:
			rep, _, _ = cm.ParseREP(data)
		}
		return []monotime.Duration{hop}
	}
	p := connectParams()
	p.Service, p.SRQ = cm.ServiceExtended, true
	id, err := w.client.Connect(w.now, p)
	w.client.must(err)
	w.run(monotime.Second)
	w.server.wantEvents(EventRequest, EventEstablished)
	if req.Service != cm.ServiceExtended || req.ExtendedTransport != cm.ExtendedXRC || req.ResponderResources != 0 || req.InitiatorDepth != 5 ||
		req.RetryCount != 0 || req.RNRRetryCount != 0 || req.SRQ {
		t.Errorf("the initiator says %+v", req)
	}
	if rep.LocalQPN != 0 || rep.LocalEECN != 0x22 || rep.InitiatorDepth != 0 || rep.ResponderResources == 0 || !rep.SRQ {
		t.Errorf("the target says %+v", rep)
	}
	active, _ := w.client.QPParams(id)
	passive, _ := w.server.QPParams(w.accepted())
	if active.DestQPN != 0x22 || passive.DestQPN != 0x11 || active.RetryCnt != 6 || active.MaxRdAtomic != rep.ResponderResources {
		t.Errorf("initiator %+v\ntarget %+v", active, passive)
	}
	w.client.must(w.client.Disconnect(w.now, id, nil))
	w.run(20 * monotime.Second)
	w.server.wantEvents(EventRequest, EventEstablished, EventDisconnected, EventTimewaitExit)
}

func TestEitherSideReleases(t *testing.T) {
	for _, byServer := range []bool{false, true} {
		w := newWorld(t)
		w.listen()
		id := w.connect()
		w.run(monotime.Second)
		w.sent, w.client.events = nil, nil
		peer := w.accepted()
		w.server.events = nil
		if byServer {
			w.server.must(w.server.Disconnect(w.now, peer, []byte("bye")))
		} else {
			w.client.must(w.client.Disconnect(w.now, id, []byte("bye")))
		}
		w.run(monotime.Second)
		w.wantSent(cm.AttrDREQ, cm.AttrDREP)
		w.client.wantEvents(EventDisconnected, EventTimewaitExit)
		w.server.wantEvents(EventDisconnected, EventTimewaitExit)
		for _, n := range []*node{w.client, w.server} {
			n.Destroy(w.now, n.events[0].Conn)
			if n.Len() != 0 || len(n.byLocal)+len(n.byRemote)+len(n.byQPN)+len(n.timers) != 0 {
				t.Errorf("%v: something is left", n.addr)
			}
		}
	}
}

func TestBothSidesReleaseAtOnce(t *testing.T) {
	w := newWorld(t)
	w.listen()
	id := w.connect()
	w.run(monotime.Second)
	w.client.must(w.client.Disconnect(w.now, id, nil))
	w.server.must(w.server.Disconnect(w.now, w.accepted(), nil))
	w.run(10 * monotime.Second)
	w.client.wantEvents(EventReply, EventDisconnected, EventTimewaitExit)
	w.server.wantEvents(EventRequest, EventEstablished, EventDisconnected, EventTimewaitExit)
}

// The whole life of a connection, with one MAD of it lost, sent twice or held
// back, gives the same events as without: loss costs time only.
func TestOneMADLostDuplicatedOrDelayedChangesNoEvent(t *testing.T) {
	faults := map[string][]monotime.Duration{
		"lost":       nil,
		"duplicated": {hop, 3 * hop},
		"delayed":    {7 * monotime.Second},
		"late copy":  {hop, 6 * monotime.Second},
	}
	for name, copies := range faults {
		for n := range 8 { // REQ DREQ DREQ DREP REP RTU DREQ DREP
			t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) {
				w := newWorld(t)
				w.delays = func(i int, d *Datagram) []monotime.Duration {
					if i == n {
						return copies
					}
					return []monotime.Duration{hop}
				}
				w.listen()
				id := w.connect()
				w.run(20 * monotime.Second)
				w.client.wantState(id, Established)
				w.server.wantState(w.accepted(), Established)
				w.client.must(w.client.Disconnect(w.now, id, nil))
				w.run(20 * monotime.Second)
				w.client.wantEvents(EventReply, EventDisconnected, EventTimewaitExit)
				w.server.wantEvents(EventRequest, EventEstablished, EventDisconnected, EventTimewaitExit)
			})
		}
	}
}

// lostRTU delays MADs, and loses every RTU.
func lostRTU(_ int, d *Datagram) []monotime.Duration {
	if h, _, _ := cm.ParseHeader(d.MAD[:]); h.Attribute == cm.AttrRTU {
		return nil
	}
	return []monotime.Duration{hop}
}

func TestLostRTUIsMadeGood(t *testing.T) {
	t.Run("by data", func(t *testing.T) {
		w := newWorld(t)
		w.delays = lostRTU
		w.listen()
		w.connect()
		w.run(monotime.Second)
		w.server.wantEvents(EventRequest)
		w.server.CommEstablished(w.now, w.accepted())
		w.server.CommEstablished(w.now, w.accepted())
		w.run(monotime.Second)
		w.server.wantEvents(EventRequest, EventEstablished)
	})
	t.Run("by a DREQ", func(t *testing.T) {
		w := newWorld(t)
		w.delays = lostRTU
		w.listen()
		id := w.connect()
		w.run(monotime.Second)
		w.client.must(w.client.Disconnect(w.now, id, nil))
		w.run(monotime.Second)
		w.server.wantEvents(EventRequest, EventEstablished, EventDisconnected, EventTimewaitExit)
	})
	t.Run("by the REP again", func(t *testing.T) {
		w := newWorld(t)
		lost := false
		w.delays = func(i int, d *Datagram) []monotime.Duration {
			if !lost && i == len(challenged)+1 {
				lost = true
				return nil
			}
			return []monotime.Duration{hop}
		}
		w.listen()
		w.connect()
		w.run(6 * monotime.Second)
		w.wantSent(append(challenged, cm.AttrREP, cm.AttrRTU, cm.AttrREP, cm.AttrRTU)...)
		w.server.wantEvents(EventRequest, EventEstablished)
		w.client.wantCount(DuplicateREP, 1)
	})
}

// A REP got lost with the process that had read it. A peer that knows of that does not wait: the
// REQ again brings the REP again.
func TestRepeatBringsALostREP(t *testing.T) {
	w := newWorld(t)
	w.delays = func(i int, d *Datagram) []monotime.Duration {
		if i == len(challenged) {
			return nil
		}
		return []monotime.Duration{hop}
	}
	w.listen()
	w.connect()
	w.run(100 * monotime.Millisecond)
	w.wantSent(append(challenged, cm.AttrREP)...)
	w.client.Repeat()
	w.run(monotime.Second)
	want := append(challenged, cm.AttrREP, cm.AttrREQ, cm.AttrREP, cm.AttrRTU)
	w.wantSent(want...)
	w.server.wantEvents(EventRequest, EventEstablished)
	w.client.Repeat() // nothing waits for an answer
	w.run(monotime.Second)
	w.wantSent(want...)
}

// Linux sends 15 retries of a REQ, 4.3 s of response time and a round trip apart.
func TestUnansweredREQIsRepeatedAndGivenUp(t *testing.T) {
	w := newWorld(t)
	w.delays = func(int, *Datagram) []monotime.Duration { return nil }
	var total monotime.Duration
	w.client.on = func(Event) { total = w.now.Sub(0) }
	id := w.connect()
	w.run(2 * 60 * monotime.Second)
	want := append(slices.Repeat([]cm.Attribute{cm.AttrREQ}, 16), cm.AttrREJ)
	w.wantSent(want...)
	w.client.wantEvents(EventUnreachable)
	w.client.wantState(id, Closed)
	if want := 16 * (wait(20, 0, 31) + wait(17, 0, 31)); total != want {
		t.Errorf("gave up after %v, want %v", total, want)
	}
}

func TestUnansweredREPIsRepeatedAndGivenUp(t *testing.T) {
	w := newWorld(t)
	w.delays = func(i int, d *Datagram) []monotime.Duration {
		if h, _, _ := cm.ParseHeader(d.MAD[:]); h.Attribute == cm.AttrREP {
			return nil
		}
		return []monotime.Duration{hop}
	}
	w.listen()
	w.connect()
	w.run(3 * 60 * monotime.Second)
	w.server.wantEvents(EventRequest, EventRejected)
	w.client.wantEvents(EventUnreachable)
}

func TestUnansweredDREQEndsTheConnection(t *testing.T) {
	w := newWorld(t)
	w.listen()
	id := w.connect()
	w.run(monotime.Second)
	w.delays = func(int, *Datagram) []monotime.Duration { return nil }
	w.client.must(w.client.Disconnect(w.now, id, nil))
	w.run(2 * 60 * monotime.Second)
	w.client.wantEvents(EventReply, EventDisconnected, EventTimewaitExit)
	w.client.wantCount(TimedOut, 1)
}

func TestMRAExtendsTheWait(t *testing.T) {
	w := newWorld(t)
	w.listen()
	w.server.on = func(Event) {} // an application that thinks it over
	w.connect()
	w.run(5 * monotime.Second)
	// The first duplicate REQ is answered by an MRA of 69 s.
	want := append(challenged, cm.AttrREQ, cm.AttrMRA)
	w.wantSent(want...)
	w.run(60 * monotime.Second)
	w.wantSent(want...)
	w.server.obliging(w.server.events[0])
	w.run(monotime.Second)
	w.server.wantEvents(EventRequest, EventEstablished)
}

func TestMRAOnCommandAndForAREP(t *testing.T) {
	w := newWorld(t)
	w.listen()
	w.server.on = func(ev Event) {
		if ev.Kind == EventRequest {
			w.server.must(w.server.MRA(ev.Conn, 22, []byte("wait")))
		}
	}
	w.client.on = func(Event) {}
	id := w.connect()
	w.run(monotime.Second)
	w.wantSent(append(challenged, cm.AttrMRA)...)
	w.client.wantState(id, MRAReqRcvd)
	w.server.obliging(w.server.events[0])
	w.run(6 * monotime.Second)
	w.wantSent(append(challenged, cm.AttrMRA, cm.AttrREP, cm.AttrREP, cm.AttrMRA)...)
	w.server.wantState(w.accepted(), MRARepRcvd)
	w.client.must(w.client.Establish(w.now, id, nil))
	w.run(monotime.Second)
	w.server.wantEvents(EventRequest, EventEstablished)
}
