// SPDX-License-Identifier: BSD-2-Clause

package iwarp

import (
	"bytes"
	"net/netip"
	"testing"

	"verbena/ib"
	"verbena/internal/engine"
	"verbena/internal/iwarp/mpa"
	"verbena/internal/iwarp/rdmap"
	"verbena/internal/monotime"
	"verbena/internal/testkit/rig"
)

type (
	node     = rig.Node
	endpoint = rig.Endpoint
)

func newNode(t testing.TB, nap monotime.Duration) *node {
	t.Helper()
	return startNode(t, nap, engine.Options{})
}

func startNode(t testing.TB, nap monotime.Duration, o engine.Options) *node {
	t.Helper()
	o.Nap = nap
	return rig.NewNode(t, o, rdmap.CounterNames())
}

// connOf returns the Conn of an endpoint.
func connOf(e *endpoint) *Conn {
	c, _ := ConnOf(e.Conn)
	return c
}

// setup is one end of the set-up of a stream, which becomes a queue pair's as soon
// as the two agree. It stands for the connection manager, and calls Connect from
// a goroutine of its own as that does.
type setup struct {
	to     *endpoint
	conn   *mpa.Conn
	stream *Stream
	failed chan error // nil once connected

	initiator bool
}

func (s *setup) flush() {
	if b, ok := s.conn.PollOutput(); ok {
		s.stream.Send(b)
	}
}

func (s *setup) Connected()       { s.flush() }
func (s *setup) Closed(err error) { s.failed <- err }

func (s *setup) Input(b []byte) (more bool) {
	rest := s.conn.HandleInput(b)
	if s.conn.State() == mpa.StateDeciding {
		go s.connect(nil)
		return true
	}
	if s.conn.State() == mpa.StateReady {
		go s.connect(bytes.Clone(rest))
		return false
	}
	return true
}

func (s *setup) connect(early []byte) {
	p := Connected{Initiator: s.initiator, Early: early, Extensions: s.to.Extensions, OnClose: s.to.OnClose}
	if !p.Initiator {
		if err := s.conn.Accept(16, 16, nil); err != nil {
			s.failed <- err
			return
		}
		p.First, _ = s.conn.PollOutput()
	}
	p.Settled = s.conn.Settled()
	s.failed <- connOf(s.to).Connect(s.stream, p, rig.AnyState)
}

// iwarpOptions of a connection.
type iwarpOptions struct {
	crc bool
	rtr mpa.RTRSet
	v6  bool
}

var loopbacks = map[bool]netip.AddrPort{false: netip.MustParseAddrPort("127.0.0.1:0"), true: netip.MustParseAddrPort("[::1]:0")}

// iwarpEndpoint is endpoint on a stream.
func iwarpEndpoint(n *node, bytes int) *endpoint {
	n.T.Helper()
	e := n.Parts(bytes)
	e.Extensions = true
	var err error
	e.Conn, err = Of(n.Eng).NewConn(n.Counters, func(qpn ib.QPN) *rdmap.Stream {
		return rdmap.NewStream(e.Config(qpn))
	}, e.Events.Put, nil)
	if err != nil {
		n.T.Fatal(err)
	}
	if err := e.ModifyTo(&ib.QPAttr{State: ib.QPInit, AccessFlags: ib.AccessRemote}, ib.QPAccessFlags); err != nil {
		n.T.Fatal(err)
	}
	return e
}

// join connects a to b, both in INIT.
func join(a *endpoint, b *endpoint, o iwarpOptions) {
	t := a.Node.T
	t.Helper()
	failed := make(chan error, 4)
	opt := mpa.Options{CRC: o.crc, IRD: 16, ORD: 16, RTR: o.rtr}
	l, err := Of(b.Node.Eng).Listen(loopbacks[o.v6], 4, func(s *Stream) StreamEvents {
		return &setup{to: b, stream: s, failed: failed, conn: mpa.NewResponder(monotime.Now(), mpa.Options{RTR: mpa.RTRs(mpa.RTREmpty, mpa.RTRWrite, mpa.RTRRead)})}
	})
	if err == nil {
		err = l.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := mpa.NewInitiator(monotime.Now(), opt)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Of(a.Node.Eng).Dial(netip.AddrPort{}, l.Addr(), func(s *Stream) StreamEvents {
		return &setup{to: a, stream: s, failed: failed, conn: conn, initiator: true}
	}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
	}
}

// iwarpPair returns two connected queue pairs, each of an engine of its own.
func iwarpPair(t testing.TB, backoff monotime.Duration, bytes int, o iwarpOptions) (a, b *endpoint) {
	t.Helper()
	n, m := newNode(t, backoff), newNode(t, backoff)
	a, b = iwarpEndpoint(n, bytes), iwarpEndpoint(m, bytes)
	join(a, b, o)
	t.Cleanup(func() {
		for _, e := range []*endpoint{a, b} {
			e.CloseOnce()
		}
	})
	return a, b
}
