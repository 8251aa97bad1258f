// SPDX-License-Identifier: BSD-2-Clause

package ibcm

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/wire/cm"
)

func TestConsumerReject(t *testing.T) {
	w := newWorld(t)
	w.listen()
	w.server.on = func(ev Event) {
		w.server.must(w.server.Reject(w.now, ev.Conn, cm.RejConsumer, []byte{7}, []byte("no thanks")))
	}
	id := w.connect()
	w.run(monotime.Second)
	w.wantSent(append(challenged, cm.AttrREJ)...)
	w.client.wantEvents(EventRejected)
	ev := w.client.events[0]
	if ev.Reason != cm.RejConsumer || !bytes.HasPrefix(ev.PrivateData, []byte("no thanks\x00")) || !bytes.Equal(ev.ARI, []byte{7}) ||
		len(ev.PrivateData) != cm.REJPrivateSize {
		t.Errorf("rejected with %+v", ev)
	}
	w.client.wantState(id, Closed)
}

func TestLostREJIsSentAgainWithoutASecondRequest(t *testing.T) {
	w := newWorld(t)
	w.delays = func(i int, d *Datagram) []monotime.Duration {
		if i == len(challenged) {
			return nil
		}
		return []monotime.Duration{hop}
	}
	w.listen()
	w.server.on = func(ev Event) {
		w.server.must(w.server.Reject(w.now, ev.Conn, cm.RejConsumer, nil, nil))
	}
	w.connect()
	w.run(30 * monotime.Second)
	w.wantSent(append(challenged, cm.AttrREJ, cm.AttrREQ, cm.AttrREJ)...)
	w.server.wantEvents(EventRequest)
	w.client.wantEvents(EventRejected)
}

func TestNoListenerIsRejectedAtOnce(t *testing.T) {
	w := newWorld(t)
	w.connect()
	w.run(monotime.Millisecond)
	w.client.wantEvents(EventRejected)
	if r := w.client.events[0].Reason; r != cm.RejInvalidServiceID {
		t.Errorf("reason %v", r)
	}
	w.server.wantCount(NoListener, 1)
}

// perftest -R listens again for its second connection, while its client asks
// already.
func TestRequestBetweenTwoListenersWaits(t *testing.T) {
	w := newWorld(t)
	w.server.must(w.server.CloseListener(w.now, w.listen()))
	w.connect()
	w.run(400 * monotime.Millisecond)
	w.client.wantEvents()
	w.listen()
	w.run(10 * monotime.Millisecond)
	w.server.wantEvents(EventRequest, EventEstablished)
	w.server.wantCount(EarlyREQ, 1)
	w.server.wantCount(NoListener, 0)
}

// qperf tells its client the port that it is bound to, and then listens.
func TestRequestBeforeTheFirstListenerWaits(t *testing.T) {
	w := newWorld(t)
	w.server.Expect(w.now, connectParams().ServiceID)
	w.connect()
	w.run(400 * monotime.Millisecond)
	w.client.wantEvents()
	w.listen()
	w.run(10 * monotime.Millisecond)
	w.server.wantEvents(EventRequest, EventEstablished)
}

func TestRequestWithoutANextListenerIsRejected(t *testing.T) {
	w := newWorld(t)
	w.server.must(w.server.CloseListener(w.now, w.listen()))
	w.connect()
	w.run(patience + 10*monotime.Millisecond)
	w.client.wantEvents(EventRejected)
	w.server.wantCount(NoListener, 1)
	if w.server.Pending() != 0 {
		t.Errorf("%d requests are pending", w.server.Pending())
	}
}

// A request that ended long ago is not expected back.
func TestRequestLongAfterAListenerIsRejectedAtOnce(t *testing.T) {
	w := newWorld(t)
	w.server.must(w.server.CloseListener(w.now, w.listen()))
	w.run(relistens + monotime.Millisecond)
	w.connect()
	w.run(monotime.Millisecond)
	w.client.wantEvents(EventRejected)
}

func TestActiveSideRejectsAREP(t *testing.T) {
	w := newWorld(t)
	w.listen()
	w.client.on = func(ev Event) {
		if ev.Kind == EventReply {
			w.client.must(w.client.Reject(w.now, ev.Conn, cm.RejConsumer, nil, []byte("too slow")))
		}
	}
	w.connect()
	w.run(10 * monotime.Second)
	w.wantSent(append(challenged, cm.AttrREP, cm.AttrREJ)...)
	w.server.wantEvents(EventRequest, EventRejected)
	w.client.wantEvents(EventReply, EventTimewaitExit)
}

// The client has forgotten an established connection, as after a crash, and
// uses its queue pair again.
func TestStaleConnectionIsRejectedAndTornDown(t *testing.T) {
	w := newWorld(t)
	w.listen()
	w.connect()
	w.run(monotime.Second)
	old := w.accepted()
	w.client = w.node(clientAddr, 1)
	w.client.Random() // other ids than in its former life
	w.sent = nil
	w.connect()
	w.run(10 * monotime.Second)
	w.wantSent(cm.AttrREQ, cm.AttrREJ, cm.AttrDREQ, cm.AttrDREP)
	w.client.wantEvents(EventRejected, EventTimewaitExit)
	if r := w.client.events[0].Reason; r != cm.RejStaleConnection {
		t.Errorf("reason %v", r)
	}
	w.server.wantEvents(EventRequest, EventEstablished, EventDisconnected, EventTimewaitExit)
	w.server.wantState(old, Closed)
	w.connect() // and the next one is welcome
	w.run(monotime.Second)
	if got := w.server.events[len(w.server.events)-1].Kind; got != EventEstablished {
		t.Errorf("the new connection ended in %v", got)
	}
}

// Another host that claims the GUID and queue pair of a peer cannot end the
// peer's connection.
func TestStaleClaimFromAnotherAddressChangesNothing(t *testing.T) {
	w := newWorld(t)
	w.listen()
	id := w.connect()
	w.run(monotime.Second)
	other := netip.MustParseAddr("10.77.0.66")
	p := connectParams()
	p.Path.Local = other
	_, err := w.client.Connect(w.now, p)
	w.client.must(err)
	w.run(monotime.Second)
	w.client.wantState(id, Established)
	w.server.wantState(w.accepted(), Established)
}

func TestMessagesForNobodyAreAnswered(t *testing.T) {
	w := newWorld(t)
	path := Path{Local: serverAddr, Remote: clientAddr}
	dreq := encode(cm.AttrDREQ, 9, &cm.DREQ{LocalCommID: 5, RemoteCommID: 6, RemoteQPN: 7})
	w.server.HandleMAD(w.now, path, dreq[:])
	rep := encode(cm.AttrREP, 9, &cm.REP{LocalCommID: 5, RemoteCommID: 6, LocalQPN: 7})
	w.server.HandleMAD(w.now, path, rep[:])
	lap := encode(cm.AttrLAP, 9, &cm.LAP{LocalCommID: 5, RemoteCommID: 6})
	w.server.HandleMAD(w.now, path, lap[:])
	var d Datagram
	w.server.PollOutput(&d)
	h, data, _ := cm.ParseHeader(d.MAD[:])
	if drep, _, _ := cm.ParseDREP(data); h.Attribute != cm.AttrDREP || h.TransactionID != 9 || drep.LocalCommID != 6 || drep.RemoteCommID != 5 || d.Path != path {
		t.Errorf("DREQ answered by %v %+v", h, drep)
	}
	w.server.PollOutput(&d)
	h, data, _ = cm.ParseHeader(d.MAD[:])
	if rej, _, _ := cm.ParseREJ(data); h.Attribute != cm.AttrREJ || rej.Of != cm.OfREP || rej.Reason != cm.RejInvalidCommID || rej.LocalCommID != 6 {
		t.Errorf("REP answered by %v %+v", h, rej)
	}
	w.server.PollOutput(&d)
	h, data, _ = cm.ParseHeader(d.MAD[:])
	if h.Attribute != cm.AttrAPR || aprStatus(data) != cm.APInvalidCommID {
		t.Errorf("LAP answered by %v % x", h, data)
	}
	w.server.wantCount(UnknownConn, 3)
}

func TestRefuseAnswersForAProcessWithoutConnections(t *testing.T) {
	path := Path{Local: serverAddr, Remote: clientAddr}
	w := newWorld(t)
	req, _ := w.capturedREQ()
	var r Refuser
	for _, c := range []struct {
		mad  MAD
		want cm.Attribute
	}{
		{encode(cm.AttrREQ, 9, &req), cm.AttrREJ},
		{encode(cm.AttrDREQ, 9, &cm.DREQ{LocalCommID: 5, RemoteCommID: 6}), cm.AttrDREP},
		{encode(cm.AttrREP, 9, &cm.REP{LocalCommID: 5, RemoteCommID: 6}), cm.AttrREJ},
		{encode(cm.AttrSIDRREQ, 9, &cm.SIDRREQ{PKey: ib.DefaultPKey}), cm.AttrSIDRREP},
		{encode(cm.AttrLAP, 9, &cm.LAP{}), cm.AttrAPR},
		{encode(cm.AttrREJ, 9, &cm.REJ{}), 0},
		{encode(cm.AttrRTU, 9, &cm.RTU{}), 0},
	} {
		var d Datagram
		ok := r.Refuse(path, c.mad[:], &d)
		h, _, _ := cm.ParseHeader(d.MAD[:])
		if ok != (c.want != 0) || h.Attribute != c.want || ok && (h.TransactionID != 9 || d.Path != path) {
			t.Errorf("%v answered by %v to %v, %v", c.mad[17], h, d.Path, ok)
		}
		if n := testing.AllocsPerRun(10, func() { r.Refuse(path, c.mad[:], &d) }); n != 0 {
			t.Errorf("%v allocates %v times", c.mad[17], n)
		}
	}
}

// A stranger may repeat a refused request as often as it likes.
func TestRefusalsAllocateNothing(t *testing.T) {
	w := newWorld(t)
	w.listen()
	path := Path{Local: serverAddr, Remote: clientAddr}
	req, _ := w.capturedREQ()
	req.ServiceID++
	for name, mad := range map[string]MAD{
		"REQ of no service": encode(cm.AttrREQ, 9, &req), "empty REQ": encode(cm.AttrREQ, 9, &cm.REQ{}),
		"MRA": encode(cm.AttrMRA, 9, &cm.MRA{}), "REJ": encode(cm.AttrREJ, 9, &cm.REJ{}), "REP": encode(cm.AttrREP, 9, &cm.REP{}),
		"RTU": encode(cm.AttrRTU, 9, &cm.RTU{}), "DREQ": encode(cm.AttrDREQ, 9, &cm.DREQ{}), "DREP": encode(cm.AttrDREP, 9, &cm.DREP{}),
		"SIDR_REQ": encode(cm.AttrSIDRREQ, 9, &cm.SIDRREQ{}), "SIDR_REP": encode(cm.AttrSIDRREP, 9, &cm.SIDRREP{}),
		"LAP": encode(cm.AttrLAP, 9, &cm.LAP{}), "APR": encode(cm.AttrAPR, 9, &cm.APR{}), "nothing": {},
	} {
		var d Datagram
		if n := testing.AllocsPerRun(10, func() {
			w.server.HandleMAD(w.now, path, mad[:])
			for w.server.PollOutput(&d) {
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	if n := w.server.Len(); n != 0 {
		t.Errorf("%d connections", n)
	}
}

func TestLAPIsRefused(t *testing.T) {
	w := newWorld(t)
	w.listen()
	id := w.connect()
	w.run(monotime.Second)
	c := w.client.conns[id]
	lap := encode(cm.AttrLAP, 9, &cm.LAP{LocalCommID: c.localID, RemoteCommID: c.remoteID})
	w.server.HandleMAD(w.now, Path{Local: serverAddr, Remote: clientAddr}, lap[:])
	var d Datagram
	w.server.PollOutput(&d)
	_, data, _ := cm.ParseHeader(d.MAD[:])
	if remote := binary.BigEndian.Uint32(data[4:]); aprStatus(data) != cm.APUnsupported || remote != c.localID {
		t.Errorf("answered by % x", data)
	}
	w.server.wantCount(LAPRefused, 1)
	w.server.wantState(w.accepted(), Established)
}

// A REQ may bring an alternate path. The connection is made over the primary
// one alone, and the REP says so.
func TestAlternatePathIsDeclined(t *testing.T) {
	for want, alternate := range map[cm.Failover]netip.Addr{
		cm.FailoverAccepted: {}, cm.FailoverUnsupported: netip.MustParseAddr("10.88.0.3"),
	} {
		w := newWorld(t)
		w.listen()
		m, path := w.capturedREQ()
		if alternate.IsValid() {
			m.Alternate = m.Primary
			m.Alternate.LocalGID = ib.GIDFromAddr(alternate)
		}
		mad := encode(cm.AttrREQ, 1, &m)
		w.server.HandleMAD(w.now, path, mad[:])
		w.server.answerChallenges(w.now)
		ev, _ := w.server.PollEvent()
		w.server.obliging(ev)
		var d Datagram
		w.server.PollOutput(&d)
		h, data, _ := cm.ParseHeader(d.MAD[:])
		if rep, _, _ := cm.ParseREP(data); h.Attribute != cm.AttrREP || rep.Failover != want || d.Path != path {
			t.Errorf("alternate %v: %v to %v, failover %d, want %d", alternate, h.Attribute, d.Path, rep.Failover, want)
		}
		if c := w.server.conns[ev.Conn]; c.qp.Path != path {
			t.Errorf("alternate %v: connected over %v", alternate, c.qp.Path)
		}
	}
}

// Requests over the backlog are dropped, which the peer takes for loss.
func TestFullBacklogDropsAndThePeerTriesAgain(t *testing.T) {
	w := newWorld(t)
	_, err := w.server.Listen(rping, serverAddr, 1)
	w.server.must(err)
	w.server.on = func(Event) {}
	first := w.connect()
	p := connectParams()
	p.QPN = 0x12
	second, err := w.client.Connect(w.now, p)
	w.client.must(err)
	w.run(monotime.Second)
	w.server.wantEvents(EventRequest)
	w.server.wantCount(BacklogFull, 1)
	w.server.on = w.server.obliging
	w.server.obliging(w.server.events[0])
	w.run(6 * monotime.Second)
	w.client.wantState(first, Established)
	w.client.wantState(second, Established)
}

func TestBounds(t *testing.T) {
	w := newWorld(t)
	w.server.MaxHalfOpen = 8
	w.listen()
	w.server.on = func(Event) {}
	w.client.MaxConns = 3
	for i := range 4 {
		p := connectParams()
		p.QPN += ib.QPN(i)
		_, err := w.client.Connect(w.now, p)
		if (err == ErrTooMany) != (i == 3) {
			t.Errorf("connection %d: %v", i, err)
		}
	}
	w.run(monotime.Second)
	w.server.wantEvents(EventRequest, EventRequest)
	w.server.wantCount(ConnsFull, 1)
	for range maxOutput + 1 {
		w.server.send(Path{}, &MAD{})
	}
	w.server.wantCount(DroppedOutputFull, 1)
}

func TestClosingAListenerRejectsWhatNobodyHasSeen(t *testing.T) {
	w := newWorld(t)
	l := w.listen()
	p := connectParams()
	w.client.must(func() error { _, err := w.client.Connect(w.now, p); return err }())
	var d Datagram
	w.client.PollOutput(&d)
	w.server.HandleMAD(w.now, Path{Local: serverAddr, Remote: clientAddr}, d.MAD[:])
	w.server.must(w.server.CloseListener(w.now, l))
	if err := w.server.CloseListener(w.now, l); err != ErrUnknown {
		t.Errorf("closed twice: %v", err)
	}
	w.run(patience + 10*monotime.Millisecond)
	w.server.wantEvents()
	w.client.wantEvents(EventRejected)
}

func TestListenersShareNoAddress(t *testing.T) {
	a := New(Config{})
	v6 := netip.MustParseAddr("fd77::2")
	for _, c := range []struct {
		addr netip.Addr
		err  error
	}{
		{serverAddr, nil}, {v6, nil}, {clientAddr, nil}, {serverAddr, ErrInUse}, {netip.IPv4Unspecified(), ErrInUse},
		{netip.IPv6Unspecified(), ErrInUse}, {netip.Addr{}, ErrInUse}, {netip.MustParseAddr("::ffff:10.77.0.2"), ErrInUse},
	} {
		if _, err := a.Listen(rping, c.addr, 0); err != c.err {
			t.Errorf("%v: %v, want %v", c.addr, err, c.err)
		}
	}
	b := New(Config{})
	if _, err := b.Listen(rping, netip.IPv4Unspecified(), 0); err != nil {
		t.Error(err)
	}
	if _, err := b.Listen(rping, v6, 0); err != nil {
		t.Errorf("IPv6 beside all of IPv4: %v", err)
	}
	if b.match(rping, serverAddr) == nil || b.match(rping, netip.MustParseAddr("fd77::9")) != nil || b.match(rping+1, serverAddr) != nil {
		t.Error("wrong match")
	}
}

func TestDestroyTellsThePeerInEveryState(t *testing.T) {
	t.Run("ReqSent", func(t *testing.T) {
		w := newWorld(t)
		w.listen()
		w.server.on = func(Event) {}
		id := w.connect()
		w.run(monotime.Millisecond)
		w.client.Destroy(w.now, id)
		w.run(monotime.Millisecond)
		w.wantSent(append(challenged, cm.AttrREJ)...)
		w.server.wantEvents(EventRequest, EventRejected)
	})
	t.Run("ReqRcvd", func(t *testing.T) {
		w := newWorld(t)
		w.listen()
		w.server.on = func(ev Event) { w.server.Destroy(w.now, ev.Conn) }
		w.connect()
		w.run(monotime.Millisecond)
		w.wantSent(append(challenged, cm.AttrREJ)...)
		w.client.wantEvents(EventRejected)
	})
	for name, confirms := range map[string]bool{"RepSent": false, "RepSent, RTU lost": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.delays = lostRTU
			w.listen()
			if !confirms {
				w.client.on = func(Event) {}
			}
			w.connect()
			w.run(monotime.Millisecond)
			w.server.Destroy(w.now, w.accepted())
			w.run(monotime.Millisecond)
			if confirms {
				w.client.wantEvents(EventReply, EventDisconnected)
			} else {
				w.client.wantEvents(EventReply, EventRejected)
			}
		})
	}
	t.Run("RepRcvd", func(t *testing.T) {
		w := newWorld(t)
		w.listen()
		w.client.on = func(ev Event) { w.client.Destroy(w.now, ev.Conn) }
		w.connect()
		w.run(monotime.Millisecond)
		w.wantSent(append(challenged, cm.AttrREP, cm.AttrREJ)...)
		w.server.wantEvents(EventRequest, EventRejected)
	})
	t.Run("Established", func(t *testing.T) {
		w := newWorld(t)
		w.listen()
		w.connect()
		w.run(monotime.Millisecond)
		w.client.Close(w.now)
		w.run(20 * monotime.Second)
		w.wantSent(append(challenged, cm.AttrREP, cm.AttrRTU, cm.AttrDREQ, cm.AttrDREP)...)
		w.client.wantEvents(EventReply)
		if w.client.Len() != 0 {
			t.Error("something is left")
		}
		w.server.wantEvents(EventRequest, EventEstablished, EventDisconnected, EventTimewaitExit)
	})
	t.Run("DreqRcvd", func(t *testing.T) {
		w := newWorld(t)
		w.listen()
		id := w.connect()
		w.run(monotime.Millisecond)
		w.server.on = func(ev Event) { w.server.Destroy(w.now, ev.Conn) }
		w.client.must(w.client.Disconnect(w.now, id, nil))
		w.run(10 * monotime.Second)
		w.wantSent(append(challenged, cm.AttrREP, cm.AttrRTU, cm.AttrDREQ, cm.AttrDREP)...)
	})
}

// A REP that names a queue pair already connected, or one that cannot be, is
// refused; the older connection goes on, as the peer still has it.
func TestREPThatCannotBe(t *testing.T) {
	for _, c := range []struct {
		name string
		qpn  ib.QPN
		want cm.Reason
		old  State
	}{
		{"stale", 0x22, cm.RejStaleConnection, Established},
		{"QP1", ib.QP1, cm.RejUnsupported, Established},
	} {
		w := newWorld(t)
		w.listen()
		old := w.connect()
		w.run(monotime.Second)
		w.server.on = func(ev Event) {
			if ev.Kind == EventRequest {
				w.server.must(w.server.Accept(w.now, ev.Conn, AcceptParams{QPN: c.qpn}))
			}
		}
		p := connectParams()
		p.QPN++
		id, err := w.client.Connect(w.now, p)
		w.client.must(err)
		w.run(monotime.Millisecond)
		w.client.wantEvents(EventReply, EventRejected)
		if ev := w.client.events[1]; ev.Conn != id || ev.Reason != c.want {
			t.Errorf("%s: %+v", c.name, ev)
		}
		w.client.wantState(old, c.old)
		w.client.wantState(id, Timewait)
	}
}

func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for c := range numCounters {
		seen[c.String()] = true
	}
	for s := range numStates {
		seen["state "+s.String()] = true
	}
	for k := EventRequest; k <= EventSIDRReply; k++ {
		seen[k.String()] = true
	}
	if want := int(numCounters) + int(numStates) + int(EventSIDRReply); len(seen) != want || seen[""] || seen["unknown"] || seen["state unknown"] {
		t.Errorf("%d names, want %d", len(seen), want)
	}
	if numCounters.String() != "unknown" || numStates.String() != "unknown" || (EventSIDRReply+1).String() != "unknown" {
		t.Error("what has no name has one")
	}
	if got := (&StateError{Op: "Accept", State: Closed}).Error(); got != "ibcm: Accept in state Closed" {
		t.Error(got)
	}
}

func TestCommandsInTheWrongStateAreErrors(t *testing.T) {
	w := newWorld(t)
	w.listen()
	id := w.connect()
	long := make([]byte, 256)
	for name, err := range map[string]error{
		"Accept":     w.client.Accept(w.now, id, AcceptParams{}),
		"Establish":  w.client.Establish(w.now, id, nil),
		"Disconnect": w.client.Disconnect(w.now, id, nil),
		"Reject":     w.client.Reject(w.now, id, cm.RejConsumer, nil, nil),
		"MRA":        w.client.MRA(id, 1, nil),
		"ReplySIDR":  w.client.ReplySIDR(w.now, id, SIDRReply{}),
	} {
		if se, ok := err.(*StateError); !ok || se.Op != name || se.State != ReqSent {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := w.client.Establish(w.now, 999, nil); err != ErrUnknown {
		t.Errorf("unknown connection: %v", err)
	}
	p := connectParams()
	p.PrivateData = long
	if _, err := w.client.Connect(w.now, p); err != ErrPrivateData {
		t.Errorf("long private data: %v", err)
	}
	w.server.on = func(ev Event) {
		if ev.Kind == EventRequest {
			if err := w.server.Accept(w.now, ev.Conn, AcceptParams{PrivateData: long}); err != ErrPrivateData {
				t.Errorf("long private data: %v", err)
			}
			w.server.obliging(ev) // nothing was half done
		}
	}
	w.run(monotime.Second)
	w.client.wantState(id, Established)
}

// aprStatus returns the status that an APR has behind both communication IDs and
// the length of its information.
func aprStatus(data []byte) cm.APStatus { return cm.APStatus(data[9]) }
