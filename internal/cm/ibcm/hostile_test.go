// SPDX-License-Identifier: BSD-2-Clause

package ibcm

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/wire/cm"
)

func (w *world) capturedREQ() (cm.REQ, Path) {
	w.t.Helper()
	w.connect()
	var d Datagram
	w.client.PollOutput(&d)
	_, data, _ := cm.ParseHeader(d.MAD[:])
	m, _, _ := cm.ParseREQ(data)
	return m, Path{Local: serverAddr, Remote: clientAddr}
}

// Each way in which a MAD can be no message of the protocol has its counter,
// and nothing else happens.
func TestMalformedMADsAreCounted(t *testing.T) {
	good := encode(cm.AttrREQ, 1, &cm.REQ{})
	for _, c := range []struct {
		name  string
		spoil func(m []byte) []byte
		want  Counter
	}{
		{"short", func(m []byte) []byte { return m[:255] }, MalformedLength},
		{"empty", func(m []byte) []byte { return nil }, MalformedLength},
		{"long", func(m []byte) []byte { return append(m, 0) }, MalformedLength},
		{"class", func(m []byte) []byte { m[1] = 3; return m }, MalformedClass},
		{"base version", func(m []byte) []byte { m[0] = 2; return m }, MalformedVersion},
		{"class version", func(m []byte) []byte { m[2] = 1; return m }, MalformedVersion},
		{"method", func(m []byte) []byte { m[3] = 0x81; return m }, MalformedMethod},
		{"attribute", func(m []byte) []byte { m[17] = 0x1b; return m }, MalformedAttribute},
		{"unasked APR", func(m []byte) []byte { m[17] = 0x1a; return m }, MalformedAttribute},
	} {
		w := newWorld(t)
		w.listen()
		b := good
		w.server.HandleMAD(w.now, Path{serverAddr, clientAddr}, c.spoil(b[:]))
		w.server.wantCount(c.want, 1)
		w.server.wantCount(Sent, 0)
		if w.server.Len() != 0 {
			t.Errorf("%s: a connection came of it", c.name)
		}
	}
}

// CVE-2014-2739: a REQ's path made Linux crash, as the addresses inside were
// believed. Here a path that is not the one the REQ came by is refused, to
// where it came from.
func TestCVE_2014_2739_AddressesInsideAREQAreNotBelieved(t *testing.T) {
	for name, spoil := range map[string]func(m *cm.REQ){
		"zero":      func(m *cm.REQ) { m.Primary.LocalGID = ib.GID{} },
		"multicast": func(m *cm.REQ) { m.Primary.LocalGID = ib.GIDFromAddr(netip.MustParseAddr("ff02::1")) },
		"third":     func(m *cm.REQ) { m.Primary.LocalGID = ib.GIDFromAddr(netip.MustParseAddr("10.77.0.99")) },
		"not us":    func(m *cm.REQ) { m.Primary.RemoteGID = ib.GIDFromAddr(netip.MustParseAddr("10.77.0.99")) },
	} {
		w := newWorld(t)
		w.listen()
		m, path := w.capturedREQ()
		spoil(&m)
		mad := encode(cm.AttrREQ, 1, &m)
		w.server.HandleMAD(w.now, path, mad[:])
		w.server.wantCount(BadGID, 1)
		var d Datagram
		if !w.server.PollOutput(&d) || d.Path != path {
			t.Errorf("%s: answered to %v", name, d.Path)
		}
		_, data, _ := cm.ParseHeader(d.MAD[:])
		if rej, _, _ := cm.ParseREJ(data); rej.Reason != cm.RejInvalidGID {
			t.Errorf("%s: %v", name, rej.Reason)
		}
	}
}

func TestREQFieldsThatCannotBe(t *testing.T) {
	for name, c := range map[string]struct {
		spoil  func(m *cm.REQ)
		count  Counter
		reason cm.Reason
	}{
		"QP0":           {func(m *cm.REQ) { m.LocalQPN = 0 }, BadQPN, cm.RejUnsupported},
		"QP1":           {func(m *cm.REQ) { m.LocalQPN = 1 }, BadQPN, cm.RejUnsupported},
		"multicast QPN": {func(m *cm.REQ) { m.LocalQPN = ib.QPMulticast }, BadQPN, cm.RejUnsupported},
		"RD":            {func(m *cm.REQ) { m.Service = cm.ServiceRD }, BadTransport, cm.RejInvalidTransportType},
		"extended 0":    {func(m *cm.REQ) { m.Service = cm.ServiceExtended }, BadTransport, cm.RejInvalidTransportType},
		"extended 2":    {func(m *cm.REQ) { m.Service, m.ExtendedTransport = cm.ServiceExtended, 2 }, BadTransport, cm.RejInvalidTransportType},
		"MTU 0":         {func(m *cm.REQ) { m.PathMTU = 0 }, BadMTU, cm.RejInvalidMTU},
		"MTU 15":        {func(m *cm.REQ) { m.PathMTU = 15 }, BadMTU, cm.RejInvalidMTU},
		"P_Key 0":       {func(m *cm.REQ) { m.PKey = 0 }, BadPKey, cm.RejUnsupported},
	} {
		w := newWorld(t)
		w.listen()
		m, path := w.capturedREQ()
		c.spoil(&m)
		mad := encode(cm.AttrREQ, 1, &m)
		w.server.HandleMAD(w.now, path, mad[:])
		w.server.wantCount(c.count, 1)
		var d Datagram
		w.server.PollOutput(&d)
		_, data, _ := cm.ParseHeader(d.MAD[:])
		if rej, _, _ := cm.ParseREJ(data); rej.Reason != c.reason || rej.RemoteCommID != m.LocalCommID {
			t.Errorf("%s: rejected with %+v", name, rej)
		}
		if w.server.Len() != 0 {
			t.Errorf("%s: a connection came of it", name)
		}
	}
}

// CVE-2021-3923: Linux handed applications structures with fields it had not filled. The bytes of a
// REJ or REP beyond its fields are zero here.
func TestCVE_2021_3923_NothingUnwrittenLeavesTheProcess(t *testing.T) {
	a := New(Config{Random: func() uint64 { return 1 }})
	for range 3 {
		a.sendREJ(Path{}, 0, &cm.REJ{Reason: cm.RejConsumer})
		a.send(Path{}, &MAD{})
	}
	var d Datagram
	for i := range d.MAD {
		d.MAD[i] = 0xff // earlier contents of the caller's buffer
	}
	for i := 0; a.PollOutput(&d); i++ {
		for at, b := range d.MAD[cm.HeaderSize+12:] {
			if b != 0 {
				t.Fatalf("output %d, byte %d is %#x", i, at, b)
			}
		}
	}
}

// Messages that name a connection must come from its peer and carry its ids.
func TestForgedMessagesChangeNothing(t *testing.T) {
	w := newWorld(t)
	w.listen()
	id := w.connect()
	w.run(monotime.Second)
	c := w.server.conns[w.accepted()]
	stranger := Path{Local: serverAddr, Remote: netip.MustParseAddr("10.77.0.66")}
	peer := Path{Local: serverAddr, Remote: clientAddr}
	dreq := func(local, remote uint32, qpn ib.QPN) []byte {
		m := encode(cm.AttrDREQ, 1, &cm.DREQ{LocalCommID: local, RemoteCommID: remote, RemoteQPN: qpn})
		return m[:]
	}
	w.server.HandleMAD(w.now, stranger, dreq(c.remoteID, c.localID, c.localQPN))
	w.server.wantCount(BadSource, 1)
	w.server.HandleMAD(w.now, peer, dreq(c.remoteID+1, c.localID, c.localQPN))
	w.server.wantCount(BadCommID, 1)
	w.server.HandleMAD(w.now, peer, dreq(c.remoteID, c.localID, c.localQPN+1))
	w.server.wantCount(BadQPN, 1)
	rej := encode(cm.AttrREJ, 1, &cm.REJ{LocalCommID: c.remoteID, RemoteCommID: c.localID, Reason: cm.RejConsumer})
	w.server.HandleMAD(w.now, peer, rej[:])
	w.server.wantCount(IgnoredState, 1)
	w.run(monotime.Second)
	w.server.wantState(c.id, Established)
	w.client.wantState(id, Established)
}

// Whatever the bytes, an agent does not panic, stays within its bounds and can
// be closed.
func FuzzAgent(f *testing.F) {
	f.Add(uint64(1), []byte{0, 0x10, 1, 0x13, 2, 0x14, 3, 0x15})
	f.Add(uint64(2), []byte{9, 0x12, 0x10, 0x11, 0x18, 0x17, 0x19, 0x13, 0x13, 0x15, 0x16})
	f.Fuzz(func(t *testing.T, seed uint64, script []byte) {
		if len(script) > 64 {
			return
		}
		hammer(t, seed, script)
	})
}

func TestHammer(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		script := make([]byte, 40)
		for i := range script {
			script[i] = byte(r.Uint32())
		}
		hammer(t, r.Uint64(), script)
	}
}

// hammer runs a connection and, between its steps, feeds both agents messages
// with fields taken from real ones and spoilt.
func hammer(t *testing.T, seed uint64, script []byte) {
	w := newWorld(t)
	r := rand.New(rand.NewPCG(seed, 1))
	w.delays = func(int, *Datagram) []monotime.Duration { return []monotime.Duration{hop} }
	_, err := w.server.Listen(rping, netip.Addr{}, 1+int(seed%8))
	w.server.must(err)
	w.server.MaxConns, w.client.MaxConns = 20, 20
	w.server.Destroy(w.now, 0)
	quiet := func(n *node) func(Event) {
		return func(ev Event) { // errors are fine here: the peer is mad
			switch ev.Kind {
			case EventRequest:
				_ = n.Accept(w.now, ev.Conn, AcceptParams{QPN: 0x20 + ib.QPN(ev.Conn)})
			case EventReply:
				_ = n.Establish(w.now, ev.Conn, nil)
			case EventDisconnected:
				_ = n.Disconnect(w.now, ev.Conn, nil)
			case EventSIDRRequest:
				_ = n.ReplySIDR(w.now, ev.Conn, SIDRReply{QPN: 3})
			}
		}
	}
	w.client.on, w.server.on = quiet(w.client), quiet(w.server)
	seen := []MAD{encode(cm.AttrREQ, 1, &cm.REQ{})}
	tap := w.delays
	w.delays = func(i int, d *Datagram) []monotime.Duration {
		seen = append(seen, d.MAD)
		return tap(i, d)
	}
	_, _ = w.client.Connect(w.now, connectParams())
	_, _ = w.client.ResolveSIDR(w.now, SIDRParams{Path: Path{clientAddr, serverAddr}, ServiceID: rping})
	for _, op := range script {
		for range op % 4 {
			w.step(w.now.Add(30 * monotime.Second))
		}
		mad := seen[r.IntN(len(seen))]
		if op&0x40 != 0 {
			mad[17] = 0x10 + op%11
		}
		if op&0x80 != 0 {
			mad[cm.HeaderSize+r.IntN(60)] = byte(r.Uint32())
		}
		n, from := w.server, clientAddr
		if op&0x20 != 0 {
			n, from = w.client, serverAddr
		}
		n.HandleMAD(w.now, Path{Local: n.addr, Remote: from}, mad[:])
		if n.Len() > 20 {
			t.Fatalf("%d connections", n.Len())
		}
	}
	for _, n := range []*node{w.client, w.server} {
		n.Close(w.now)
		n.on = func(ev Event) { n.Destroy(w.now, ev.Conn) }
	}
	w.run(60 * 60 * monotime.Second)
	for _, n := range []*node{w.client, w.server} {
		n.Close(w.now)
		if len(n.conns)+len(n.byLocal)+len(n.byRemote)+len(n.byQPN)+len(n.bySIDR)+len(n.timers) != 0 || n.halfOpen != 0 || n.pending != 0 ||
			len(n.halfOpenOf)+len(n.remembered) != 0 {
			t.Fatalf("%v: left %d %d %d %d %d %d, half open %d %v, remembered %d", n.addr, len(n.conns), len(n.byLocal),
				len(n.byRemote), len(n.byQPN), len(n.bySIDR), len(n.timers), n.halfOpen, n.halfOpenOf, len(n.remembered))
		}
	}
}
