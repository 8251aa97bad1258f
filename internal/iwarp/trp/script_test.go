// SPDX-License-Identifier: BSD-2-Clause

package trp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"

	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/monotime"
	wire "verbena/internal/wire/trp"
)

var (
	clientAddr = netip.MustParseAddrPort("192.0.2.1:50000")
	listenAddr = netip.MustParseAddrPort("192.0.2.2:7174")
	serverAddr = netip.MustParseAddrPort("192.0.2.2:60000") // an Accept comes from another port
)

// script drives one Conn, whose peer is the test, at times the test says.
type script struct {
	t      *testing.T
	c      *Conn
	now    monotime.Time
	from   netip.AddrPort
	sent   []wire.Packet // not yet looked at
	bursts []int         // datagrams in each burst
	up     []uint64      // segments that came up
	order  uint64        // told by HandleInOrder
	acked  uint64        // told by HandleAcked
	refuse bool          // segments
	onUp   func()
	burst  *Burst
}

func (s *script) HandleSegment(_ monotime.Time, seq uint64, segment []byte) bool {
	s.t.Helper()
	if s.refuse {
		return false
	}
	if want := segment0(seq); !bytes.Equal(segment, want) {
		s.t.Fatalf("segment %d came up as %q, want %q", seq, segment, want)
	}
	s.up = append(s.up, seq)
	if s.onUp != nil {
		s.onUp()
	}
	return true
}

func (s *script) HandleInOrder(_ monotime.Time, next uint64) { s.order = next }
func (s *script) HandleAcked(_ monotime.Time, next uint64)   { s.acked = next }

// segment0 is the content of a segment in scripts.
func segment0(seq uint64) []byte { return fmt.Appendf(nil, "segment %06d", uint32(seq)) }

// established returns a client that talks to a peer with a window, at time 0.
func established(t *testing.T, cfg Config) *script {
	t.Helper()
	return establishedBy(t, cfg, DefaultWindow)
}

// establishedByUrdma is established with a peer that does not announce its window.
func establishedByUrdma(t *testing.T, cfg Config) *script {
	t.Helper()
	return establishedBy(t, cfg, 0)
}

func establishedBy(t *testing.T, cfg Config, window wire.PSN) *script {
	t.Helper()
	s := dial(t, cfg)
	s.accept(window)
	s.wantACK(0, 0)
	s.wantEvent(EventEstablished, 0)
	return s
}

func dial(t *testing.T, cfg Config) *script {
	t.Helper()
	s := &script{t: t, from: serverAddr, burst: NewBurst()}
	c, err := Dial(s.now, cfg, s, listenAddr, wire.Setup{IRD: 4, ORD: 2, PrivateData: []byte("hello")})
	if err != nil {
		t.Fatal(err)
	}
	s.c = c
	s.poll()
	s.want("Request", wire.Packet{Header: wire.Header{AckPSN: wire.PSN(c.Window), Opcode: wire.Request}, Setup: wire.Setup{IRD: 4, ORD: 2, PrivateData: []byte("hello")}})
	return s
}

func (s *script) accept(window wire.PSN) {
	s.t.Helper()
	s.recv(wire.Packet{Header: wire.Header{AckPSN: window, Opcode: wire.Accept}, Setup: wire.Setup{IRD: 2, ORD: 4, PrivateData: []byte("yes")}})
}

// poll collects the output.
func (s *script) poll() {
	s.t.Helper()
	for s.c.PollOutput(s.now, s.burst) {
		s.burst.Seal()
		stream := bytes.Join(s.burst.Iov(), nil)
		if len(stream) != s.burst.Bytes() || s.burst.Dst() != s.c.Peer() {
			s.t.Fatalf("a burst of %d bytes to %v, announced as %d to %v", len(stream), s.c.Peer(), s.burst.Bytes(), s.burst.Dst())
		}
		s.bursts = append(s.bursts, s.burst.Len())
		for len(stream) > 0 {
			n := min(s.burst.SegmentBytes(), len(stream))
			var p wire.Packet
			if m := p.Parse(stream[:n]); m != wire.WellFormed {
				s.t.Fatalf("sent %x, which is %v", stream[:n], m)
			}
			s.sent = append(s.sent, p)
			stream = stream[n:]
		}
		s.burst.Reset()
	}
}

// recv passes datagrams in, and collects the output that they cause.
func (s *script) recv(packets ...wire.Packet) {
	s.t.Helper()
	for _, p := range packets {
		s.c.HandleInput(s.now, s.from, p.Append(nil))
	}
	s.poll()
}

// pass lets time go by, timers included.
func (s *script) pass(d monotime.Duration) {
	s.t.Helper()
	for end := s.now.Add(d); ; {
		if next := s.c.NextTimeout(); next <= end {
			s.now = max(s.now, next)
			s.c.HandleTimeout(s.now)
			s.poll()
			if s.c.NextTimeout() <= s.now {
				s.t.Fatal("a timer that is due again")
			}
			continue
		}
		s.now = end
		return
	}
}

// want takes the next datagram sent.
func (s *script) want(what string, p wire.Packet) {
	s.t.Helper()
	if len(s.sent) == 0 {
		s.t.Fatalf("%s: nothing was sent", what)
	}
	got := s.sent[0]
	s.sent = s.sent[1:]
	if !bytes.Equal(got.Append(nil), p.Append(nil)) {
		s.t.Fatalf("%s:\n sent %+v\n want %+v", what, got, p)
	}
}

func data(psn, ack uint64) wire.Packet {
	return wire.Packet{Header: wire.Header{PSN: wire.PSN(psn), AckPSN: wire.PSN(ack)}, Payload: segment0(psn)}
}

func ack(psn, ack uint64) wire.Packet {
	return wire.Packet{Header: wire.Header{PSN: wire.PSN(psn), AckPSN: wire.PSN(ack)}}
}

func sack(from, to uint64) wire.Packet {
	return wire.Packet{Header: wire.Range{Min: wire.PSN(from), Max: wire.PSN(to)}.Header()}
}

func fin(psn, ack uint64) wire.Packet {
	return wire.Packet{Header: wire.Header{PSN: wire.PSN(psn), AckPSN: wire.PSN(ack), Opcode: wire.FIN}}
}

func (s *script) wantACK(psn, n uint64)    { s.t.Helper(); s.want("ACK", ack(psn, n)) }
func (s *script) wantSACK(from, to uint64) { s.t.Helper(); s.want("SACK", sack(from, to)) }
func (s *script) wantFIN(psn, n uint64)    { s.t.Helper(); s.want("FIN", fin(psn, n)) }
func (s *script) wantData(psn, n uint64)   { s.t.Helper(); s.want("segment", data(psn, n)) }
func (s *script) wantState(st State)       { s.t.Helper(); wantEqual(s.t, "state", s.c.State(), st) }
func (s *script) wantCount(k Counter, n uint64) {
	s.t.Helper()
	wantEqual(s.t, counterNames[k], s.c.Counters().By[k], n)
}

func (s *script) wantNothing() {
	s.t.Helper()
	if len(s.sent) > 0 {
		s.t.Fatalf("sent %+v", s.sent)
	}
}

func (s *script) wantEvent(k EventKind, r Reason) Event {
	s.t.Helper()
	ev, ok := s.c.PollEvent()
	if !ok || ev.Kind != k || ev.Reason != r {
		s.t.Fatalf("event %v %v (%v), want %v %v", ev.Kind, ev.Reason, ok, k, r)
	}
	return ev
}

func (s *script) wantNoEvent() {
	s.t.Helper()
	if ev, ok := s.c.PollEvent(); ok {
		s.t.Fatalf("event %v %v", ev.Kind, ev.Reason)
	}
}

func (s *script) wantUp(seqs ...uint64) {
	s.t.Helper()
	wantEqual(s.t, "came up", fmt.Sprint(s.up), fmt.Sprint(seqs))
	s.up = nil
}

func wantEqual[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
}

// send queues the next n segments and collects the output.
func (s *script) send(n int) {
	s.t.Helper()
	for range n {
		if !s.c.Send(segment0(s.c.snd.end)) {
			s.t.Fatalf("segment %d was not taken", s.c.snd.end)
		}
	}
	s.poll()
}

// roundTrip sends one segment that is acknowledged after a while.
func (s *script) roundTrip(rtt monotime.Duration) {
	s.t.Helper()
	s.send(1)
	s.wantData(s.c.snd.next-1, s.c.rcv.next)
	s.pass(rtt)
	s.recv(ack(s.c.rcv.next, s.c.snd.next))
	s.wantNothing()
}

const pd = mem.PD(1)

// memory is a registered region; spans are taken from it.
type memory struct {
	t      *testing.T
	table  *mem.Table
	region *mem.Region
	bytes  []byte
}

func newMemory(t *testing.T, n int) *memory {
	t.Helper()
	m := &memory{t: t, bytes: make([]byte, n)}
	for i := 0; i+4 <= n; i += 4 {
		binary.BigEndian.PutUint32(m.bytes[i:], uint32(i)*2654435761)
	}
	next := uint32(0)
	m.table = mem.NewTable(func() uint32 { next++; return next })
	var err error
	if m.region, err = m.table.Register(pd, m.bytes, 0, ib.AccessLocalWrite); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *memory) span(off, n int) mem.Span {
	m.t.Helper()
	s, v := m.table.Local(pd, ib.SGE{Addr: uint64(off), Length: uint32(n), LKey: m.region.LKey()}, 0)
	if v != ib.VendorNone {
		m.t.Fatal(v)
	}
	return s
}
