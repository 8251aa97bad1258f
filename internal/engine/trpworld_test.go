// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"net/netip"
	"testing"

	"verbena/ib"
	"verbena/internal/iwarp/rdmap"
	"verbena/internal/iwarp/trp"
	"verbena/internal/monotime"
	"verbena/internal/qp"
	"verbena/internal/sys/faultcap"
	wire "verbena/internal/wire/trp"
)

// trpNode is a node for queue pairs of TRP.
func trpNode(t testing.TB, backoff monotime.Duration, o Options) *node {
	t.Helper()
	o.Solo = true
	n := startNode(t, backoff, o)
	n.account = NewAccount(rdmap.AssociationCounterNames())
	return n
}

// trpEnd is an endpoint of TRP and what it heard of its association.
type trpEnd struct {
	*endpoint
	link chan trp.Event
}

func (n *node) trpEndpoint(bytes int) *trpEnd {
	n.t.Helper()
	e := &trpEnd{n.parts(bytes), make(chan trp.Event, 8)}
	var err error
	e.Conn, err = n.eng.NewTRPConn(n.account, func(qpn ib.QPN) *rdmap.Association {
		return rdmap.NewAssociation(qp.Config{QPN: qpn, PD: 1, Mem: n.keys, SQ: e.sq, RQ: e.rq, SendCQ: e.cq, RecvCQ: e.cq})
	}, func(ev ib.EventType) { e.events.Add(1 << ev) })
	if err != nil {
		n.t.Fatal(err)
	}
	e.init()
	n.t.Cleanup(func() {
		if !e.closed {
			e.Close()
		}
	})
	return e
}

func (e *trpEnd) init() {
	if err := e.modify(&ib.QPAttr{State: ib.QPInit, AccessFlags: ib.AccessRemote}, ib.QPAccessFlags); err != nil {
		e.node.t.Fatal(err)
	}
}

func (e *trpEnd) onLink(ev trp.Event) { e.link <- ev }

// wantLink waits for the next event of the association.
func (e *trpEnd) wantLink(k trp.EventKind, r trp.Reason) trp.Event {
	e.node.t.Helper()
	var ev trp.Event
	until(e.node.t, k.String(), func() bool {
		select {
		case ev = <-e.link:
			return true
		default:
			return false
		}
	})
	if ev.Kind != k || ev.Reason != r {
		e.node.t.Fatalf("%v (%v), want %v (%v)", ev.Kind, ev.Reason, k, r)
	}
	return ev
}

// listen takes requests at a free port.
func (n *node) listen(at netip.Addr, backlog int) (*TRPListener, chan *TRPRequest) {
	n.t.Helper()
	p, err := n.eng.BindTRP(netip.AddrPortFrom(at, 0))
	if err != nil {
		n.t.Fatal(err)
	}
	requests := make(chan *TRPRequest, 64)
	l, err := p.Listen(backlog, func(r *TRPRequest) { requests <- r })
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(l.Close)
	return l, requests
}

func (e *trpEnd) dial(from netip.Addr, to netip.AddrPort, private string) {
	e.node.t.Helper()
	p, err := e.node.eng.BindTRP(netip.AddrPortFrom(from, 0))
	if err != nil {
		e.node.t.Fatal(err)
	}
	if err := e.DialTRP(p, to, wire.Setup{IRD: 16, ORD: 16, PrivateData: []byte(private)}, e.onLink); err != nil {
		e.node.t.Fatal(err)
	}
}

func (e *trpEnd) accept(r *TRPRequest, private string) {
	e.node.t.Helper()
	if err := e.AcceptTRP(r, r.Local, wire.Setup{IRD: 16, ORD: 16, PrivateData: []byte(private)}, e.onLink); err != nil {
		e.node.t.Fatal(err)
	}
}

// trpPair returns two connected queue pairs, each of an engine of its own.
func trpPair(t testing.TB, backoff monotime.Duration, bytes int, at netip.Addr, faults string) (a, b *trpEnd) {
	t.Helper()
	f, err := faultcap.ParseFaults(faults)
	if err != nil {
		t.Fatal(err)
	}
	a, b = trpNode(t, backoff, Options{Faults: f}).trpEndpoint(bytes), trpNode(t, backoff, Options{Faults: f}).trpEndpoint(bytes)
	l, requests := b.node.listen(at, 0)
	a.dial(at, l.Addr(), "hello")
	b.accept(<-requests, "welcome")
	a.wantLink(trp.EventEstablished, 0)
	b.wantLink(trp.EventEstablished, 0)
	return a, b
}

var (
	loopback4 = netip.MustParseAddr("127.0.0.1")
	loopback6 = netip.MustParseAddr("::1")
)
