// SPDX-License-Identifier: BSD-2-Clause

package trp

import (
	"net/netip"
	"os"
	"testing"

	"verbena/ib"
	"verbena/internal/engine"
	"verbena/internal/iwarp/rdmap"
	"verbena/internal/iwarp/trp"
	"verbena/internal/monotime"
	"verbena/internal/sys/faultcap"
	"verbena/internal/testkit/rig"
	"verbena/internal/testkit/xdpwire"
	"verbena/internal/transport/roce"
	wire "verbena/internal/wire/trp"
)

// With VERBENA_TEST_XDP=1 nodes have frames of an interface.
func TestMain(m *testing.M) { os.Exit(xdpwire.Main(m)) }

type (
	node     = rig.Node
	endpoint = rig.Endpoint
)

// connOf returns the Conn of an end.
func connOf(e *trpEnd) *Conn {
	c, _ := ConnOf(e.Conn)
	return c
}

// trpNode is a node for queue pairs of TRP.
func trpNode(t testing.TB, backoff monotime.Duration, o engine.Options) *node {
	t.Helper()
	o.Nap = backoff
	var p *xdpwire.Place
	if o.Components == nil {
		p = xdpwire.Of(t)
	}
	if p != nil && o.Capture == nil && o.Faults.None() {
		o.Components = append(o.Components, roce.Component(roce.Options{Dir: p.Dir, NoLocal: true, Frames: p.Frames, Attach: p.Attach, LookUp: p.LookUp}))
	}
	n := rig.NewNode(t, o, rdmap.AssociationCounterNames())
	if n.Addr = loopback4; p != nil && o.Components != nil {
		n.Addr = p.Addr
	}
	return n
}

// trpEnd is an endpoint of TRP and the events of its association.
type trpEnd struct {
	*endpoint
	link chan trp.Event
}

func trpEndpoint(n *node, bytes int) *trpEnd {
	n.T.Helper()
	e := &trpEnd{n.Parts(bytes), make(chan trp.Event, 8)}
	var err error
	e.Conn, err = Of(n.Eng).NewConn(n.Counters, func(qpn ib.QPN) *rdmap.Association {
		return rdmap.NewAssociation(e.Config(qpn), nil)
	}, e.Events.Put, nil)
	if err != nil {
		n.T.Fatal(err)
	}
	e.init()
	n.T.Cleanup(e.CloseOnce)
	return e
}

func (e *trpEnd) init() {
	if err := e.ModifyTo(&ib.QPAttr{State: ib.QPInit, AccessFlags: ib.AccessRemote}, ib.QPAccessFlags); err != nil {
		e.Node.T.Fatal(err)
	}
}

func (e *trpEnd) onLink(ev trp.Event) { e.link <- ev }

// nextLink waits for the next event of the association.
func (e *trpEnd) nextLink(what string) (ev trp.Event) {
	e.Node.T.Helper()
	rig.Until(e.Node.T, what, func() bool {
		select {
		case ev = <-e.link:
			return true
		default:
			return false
		}
	})
	return ev
}

// wantLink waits for the next event of the association, which must be this one.
func (e *trpEnd) wantLink(k trp.EventKind, r trp.Reason) trp.Event {
	e.Node.T.Helper()
	ev := e.nextLink(k.String())
	if ev.Kind != k || ev.Reason != r {
		e.Node.T.Fatalf("%v (%v), want %v (%v)", ev.Kind, ev.Reason, k, r)
	}
	return ev
}

// listen takes requests at a free port.
func listen(n *node, at netip.Addr, backlog int) (*Listener, chan *Request) {
	n.T.Helper()
	p, err := Of(n.Eng).Bind(netip.AddrPortFrom(at, 0))
	if err != nil {
		n.T.Fatal(err)
	}
	requests := make(chan *Request, 64)
	l, err := p.Listen(backlog, func(r *Request) { requests <- r }, nil)
	if err != nil {
		n.T.Fatal(err)
	}
	n.T.Cleanup(l.Close)
	return l, requests
}

// next waits for the next request. A client that has given up sends none.
func next(t testing.TB, requests chan *Request) (r *Request) {
	t.Helper()
	rig.Until(t, "a request comes", func() bool {
		select {
		case r = <-requests:
		default:
		}
		return r != nil
	})
	return r
}

func (e *trpEnd) dial(from netip.Addr, to netip.AddrPort, private string) {
	e.Node.T.Helper()
	p, err := Of(e.Node.Eng).Bind(netip.AddrPortFrom(from, 0))
	if err != nil {
		e.Node.T.Fatal(err)
	}
	if err := connOf(e).Dial(p, to, wire.Setup{IRD: 16, ORD: 16, PrivateData: []byte(private)}, e.onLink); err != nil {
		e.Node.T.Fatal(err)
	}
}

func (e *trpEnd) accept(r *Request, private string) {
	e.Node.T.Helper()
	if err := connOf(e).Accept(r, r.Local, wire.Setup{IRD: 16, ORD: 16, PrivateData: []byte(private)}, e.onLink); err != nil {
		e.Node.T.Fatal(err)
	}
}

// trpPair returns two connected queue pairs, each of an engine of its own.
func trpPair(t testing.TB, backoff monotime.Duration, bytes int, at netip.Addr, faults string) (a, b *trpEnd) {
	t.Helper()
	f, err := faultcap.ParseFaults(faults)
	if err != nil {
		t.Fatal(err)
	}
	a, b = trpEndpoint(trpNode(t, backoff, engine.Options{Faults: f}), bytes), trpEndpoint(trpNode(t, backoff, engine.Options{Faults: f}), bytes)
	from, to := at, at
	if at == loopback4 { // or the addresses that frames are for
		from, to = a.Node.Addr, b.Node.Addr
	}
	l, requests := listen(b.Node, to, 0)
	a.dial(from, l.Addr(), "hello")
	b.accept(next(t, requests), "welcome")
	a.wantLink(trp.EventEstablished, 0)
	b.wantLink(trp.EventEstablished, 0)
	return a, b
}

var (
	loopback4 = netip.MustParseAddr("127.0.0.1")
	loopback6 = netip.MustParseAddr("::1")
)
