// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"bytes"
	"net/netip"
	"sync/atomic"
	"testing"

	"verbena/ib"
	"verbena/internal/iwarp/mpa"
	"verbena/internal/iwarp/rdmap"
	"verbena/internal/monotime"
	"verbena/internal/qp"
	"verbena/internal/queue"
)

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
	p := Connected{Initiator: s.initiator, Early: early, Extensions: s.to.extensions, OnClose: s.to.onClose}
	if !p.Initiator {
		if err := s.conn.Accept(16, 16, nil); err != nil {
			s.failed <- err
			return
		}
		p.First, _ = s.conn.PollOutput()
	}
	p.Settled = s.conn.Settled()
	s.failed <- s.to.Connect(s.stream, p, anyState)
}

// iwarpOptions of a connection.
type iwarpOptions struct {
	crc bool
	rtr mpa.RTRSet
	v6  bool
}

var loopbacks = map[bool]netip.AddrPort{false: netip.MustParseAddrPort("127.0.0.1:0"), true: netip.MustParseAddrPort("[::1]:0")}

// iwarpEndpoint is endpoint on a stream.
func (n *node) iwarpEndpoint(bytes int) *endpoint {
	n.t.Helper()
	e := n.parts(bytes)
	e.extensions = true
	var err error
	e.Conn, err = n.eng.NewIWARPConn(n.account, func(qpn ib.QPN) *rdmap.Stream {
		return rdmap.NewStream(qp.Config{QPN: qpn, PD: 1, Mem: n.keys, SQ: e.sq, RQ: e.rq, SendCQ: e.cq, RecvCQ: e.cq})
	}, func(ev ib.EventType) { e.events.Add(1 << ev) })
	if err != nil {
		n.t.Fatal(err)
	}
	if err := e.modify(&ib.QPAttr{State: ib.QPInit, AccessFlags: ib.AccessRemote}, ib.QPAccessFlags); err != nil {
		n.t.Fatal(err)
	}
	return e
}

// join connects a to b, both in INIT.
func (a *endpoint) join(b *endpoint, o iwarpOptions) {
	t := a.node.t
	t.Helper()
	failed := make(chan error, 4)
	opt := mpa.Options{CRC: o.crc, IRD: 16, ORD: 16, RTR: o.rtr}
	l, err := b.node.eng.ListenStreams(loopbacks[o.v6], 4, func(s *Stream) StreamEvents {
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
	if _, err := a.node.eng.DialStream(netip.AddrPort{}, l.Addr(), func(s *Stream) StreamEvents {
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
	n.account, m.account = NewAccount(rdmap.CounterNames()), NewAccount(rdmap.CounterNames())
	a, b = n.iwarpEndpoint(bytes), m.iwarpEndpoint(bytes)
	a.join(b, o)
	t.Cleanup(func() {
		for _, e := range []*endpoint{a, b} {
			if !e.closed {
				e.Close()
			}
		}
	})
	return a, b
}

// request puts a signaled work request on the send queue.
func (e *endpoint) request(w queue.SendWQE) {
	e.Lock()
	p, ok := e.sq.Reserve()
	if !ok {
		e.node.t.Fatal("the send queue is full")
	}
	p.Opcode, p.Flags, p.Length, p.RKey, p.RemoteAddr, p.InvalidateKey = w.Opcode, w.Flags|ib.SendSignaled, w.Length, w.RKey, w.RemoteAddr, w.InvalidateKey
	p.CompareAdd, p.Swap, p.Imm, p.WRID = w.CompareAdd, w.Swap, w.Imm, w.WRID
	if w.Length > 0 {
		p.SGE = append(p.SGE, ib.SGE{Addr: w.BindAddr, Length: w.Length, LKey: e.region.LKey()})
	}
	e.sq.Commit()
	e.Ring()
}

// want waits for the next completion and fails the test unless it is this.
func (e *endpoint) want(op ib.WCOpcode, status ib.WCStatus) ib.WC {
	e.node.t.Helper()
	wc := e.await()
	if wc.Status != status || status == ib.WCSuccess && wc.Opcode != op {
		e.node.t.Fatalf("%v %v (%v), want %v %v", wc.Opcode, wc.Status, wc.VendorErr, op, status)
	}
	return wc
}

func (e *endpoint) state() ib.QPState {
	e.Lock()
	defer e.Unlock()
	return e.Machine().State()
}

// eventSet collects asynchronous events.
type eventSet struct{ atomic.Uint64 }

func (s *eventSet) has(e ib.EventType) bool { return s.Load()>>e&1 != 0 }

// fastKey returns a key of the first bytes that a peer may invalidate.
func (e *endpoint) fastKey() ib.RKey {
	e.node.t.Helper()
	r, err := e.node.keys.AllocFast(1, 1)
	if err == nil {
		_, err = r.Map([][]byte{e.buf[:64]}, 0)
	}
	if err != nil {
		e.node.t.Fatal(err)
	}
	if v := e.node.keys.FastRegister(1, r, r.RKey(), ib.AccessLocalWrite|ib.AccessRemote); v != ib.VendorNone {
		e.node.t.Fatal(v)
	}
	return r.RKey()
}

// recvOf posts a receive of n bytes.
func (e *endpoint) recvOf(n int) {
	e.Lock()
	w, _ := e.rq.Reserve()
	w.Length = uint32(n)
	w.SGE = append(w.SGE, ib.SGE{Length: w.Length, LKey: e.region.LKey()})
	e.rq.Commit()
	e.RingReceives()
}
