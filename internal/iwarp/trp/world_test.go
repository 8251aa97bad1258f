// SPDX-License-Identifier: BSD-2-Clause

package trp

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"net/netip"
	"testing"

	"verbena/internal/monotime"
	"verbena/internal/simnet"
	wire "verbena/internal/wire/trp"
)

const (
	listenPort = 7174
	poolBytes  = 1 << 16 // memory that segments point into
)

// world is two hosts on a virtual network.
type world struct {
	t              *testing.T
	net            *simnet.Net
	client, server *node
	pool           *memory
	pattern        []byte // contents of pool
	base           uint64 // the first sequence number of all associations
}

// node is a host: a listener and associations by their port.
type node struct {
	w        *world
	addr     netip.Addr
	listener *Listener
	ends     map[uint16]*end
	lastPort uint16
	all      []*end
	burst    *Burst
	onFresh  func(*end)
}

// end is an association with the layer above it.
type end struct {
	n      *node
	c      *Conn
	port   uint16
	number int // both ends of an association have the same
	peer   *end
	armed  monotime.Time
	events []Event
	onTurn func(*end) // the application's reaction to an event

	toSend, sent int // segments
	size         func(seq uint64) int
	refuse       int             // chance of 1000 that a segment is not taken
	seen         map[uint64]bool // came up, not yet in order
	next         uint64          // in order
	acked        uint64
	orderly      bool // Close, not Abort, ended it
	bytes        int  // came up
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	w := &world{t: t, net: simnet.New(seed), pool: newMemory(t, poolBytes)}
	w.pattern = bytes.Clone(w.pool.bytes)
	w.net.Faults.Delay = 25 * monotime.Microsecond
	w.client = w.host("192.0.2.1")
	w.server = w.host("192.0.2.2")
	return w
}

func (w *world) host(addr string) *node {
	w.t.Helper()
	l, err := NewListener(Config{}, 0, 5)
	if err != nil {
		w.t.Fatal(err)
	}
	n := &node{w: w, addr: netip.MustParseAddr(addr), listener: l, ends: map[uint16]*end{}, lastPort: 50000, burst: NewBurst()}
	w.net.Attach(n.addr, n.deliver)
	return n
}

func (n *node) add(c *Conn) *end {
	n.lastPort++
	e := &end{n: n, c: c, port: n.lastPort, armed: monotime.Never, seen: map[uint64]bool{}, next: n.w.base, acked: n.w.base}
	n.ends[e.port] = e
	n.all = append(n.all, e)
	return e
}

// begin has an association's sequence numbers start where the world says.
func (e *end) begin(c *Conn) {
	e.c = c
	c.snd.una, c.snd.next, c.snd.end = e.n.w.base, e.n.w.base, e.n.w.base
	c.rcv.next, c.rcv.high = e.n.w.base, e.n.w.base
}

func listenOf(n *node) netip.AddrPort { return netip.AddrPortFrom(n.addr, listenPort) }

// start makes a client's association.
func (n *node) start(e *end, to *node, cfg Config) {
	c, err := Dial(n.w.net.Now(), cfg, e, listenOf(to), wire.Setup{IRD: 1, ORD: 1})
	if err != nil {
		n.w.t.Fatal(err)
	}
	e.begin(c)
	e.turn()
}

// deliver takes a datagram: the destination port, the UDP payload and a
// checksum, as UDP has them.
func (n *node) deliver(d *simnet.Datagram) {
	b := d.Payload
	if len(b) < 6 || crc32.ChecksumIEEE(b[:len(b)-4]) != binary.BigEndian.Uint32(b[len(b)-4:]) {
		return
	}
	port, payload := binary.BigEndian.Uint16(b), b[2:len(b)-4]
	from := netip.AddrPortFrom(d.Src, d.SrcPort)
	now := n.w.net.Now()
	if port == listenPort {
		c, fresh, again := n.listener.HandleInput(now, from, payload)
		switch {
		case again != nil:
			again.PollOutput(now, n.burst)
			n.burst.Seal()
			(&end{n: n, port: listenPort}).transmit(from, bytes.Join(n.burst.Iov(), nil))
			n.burst.Reset()
		case fresh:
			e := n.add(c)
			e.begin(c)
			n.onFresh(e)
			e.turn()
		case c != nil:
			c.HandleInput(now, from, payload)
			for _, e := range n.all {
				if e.c == c {
					e.turn()
				}
			}
		}
		return
	}
	if e := n.ends[port]; e != nil {
		e.c.HandleInput(now, from, payload)
		e.turn()
	}
}

// turn does all that follows an event: events, the application, output, timers.
func (e *end) turn() {
	w := e.n.w
	now := w.net.Now()
	for {
		ev, ok := e.c.PollEvent()
		if !ok {
			break
		}
		e.events = append(e.events, ev)
		w.net.Note(uint64(e.port), uint64(ev.Kind), uint64(ev.Reason))
		if ev.Kind == EventClosed {
			delete(e.n.ends, e.port)
			if !e.c.active {
				e.n.listener.Forget(e.c.Peer())
			}
		}
	}
	if e.onTurn != nil {
		e.onTurn(e)
	}
	e.fill()
	b := e.n.burst
	for e.c.PollOutput(now, b) {
		b.Seal()
		stream := bytes.Join(b.Iov(), nil)
		for len(stream) > 0 {
			n := min(b.SegmentBytes(), len(stream))
			e.transmit(b.Dst(), stream[:n])
			stream = stream[n:]
		}
		b.Reset()
		e.fill()
	}
	e.c.check(w.t)
	if at := e.c.NextTimeout(); at < e.armed {
		e.armed = at
		w.net.At(at, func() {
			if e.armed == at {
				e.armed = monotime.Never
				e.c.HandleTimeout(w.net.Now())
				e.turn()
			}
		})
	}
}

func (e *end) transmit(dst netip.AddrPort, payload []byte) {
	b := binary.BigEndian.AppendUint16(nil, dst.Port())
	b = append(b, payload...)
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	e.n.w.net.Send(simnet.Datagram{Src: e.n.addr, Dst: dst.Addr(), SrcPort: e.port, Payload: b})
}

// head is the part of a segment that is copied: whose it is, and which.
func (e *end) head(seq uint64) []byte {
	direction := byte(0)
	if e.c.active {
		direction = 1
	}
	b := []byte{direction}
	b = binary.BigEndian.AppendUint16(b, uint16(e.number))
	return binary.BigEndian.AppendUint64(b, seq)
}

// fill queues segments while there is room.
func (e *end) fill() {
	for e.sent < e.toSend && e.c.Room() > 0 {
		seq := e.n.w.base + uint64(e.sent)
		off, n := e.place(seq)
		if !e.c.Send(e.head(seq), e.n.w.pool.span(off, n)) {
			e.n.w.t.Fatal("Room told of room")
		}
		e.sent++
	}
}

// place is the range of a segment's payload in the pool.
func (e *end) place(seq uint64) (off, n int) {
	n = e.size(seq)
	return int(seq * 7919 % uint64(poolBytes-n)), n
}

func (e *end) HandleSegment(_ monotime.Time, seq uint64, segment []byte) bool {
	w := e.n.w
	if e.refuse > 0 && w.net.Rand.IntN(1000) < e.refuse {
		return false
	}
	if seq < e.next || e.seen[seq] {
		w.t.Fatalf("segment %d came up twice", seq)
	}
	off, n := e.peer.place(seq)
	if want := e.peer.head(seq); !bytes.Equal(segment[:len(want)], want) || !bytes.Equal(segment[len(want):], w.pattern[off:off+n]) {
		w.t.Fatalf("segment %d is not what was sent", seq)
	}
	e.seen[seq] = true
	e.bytes += n
	return true
}

func (e *end) HandleInOrder(_ monotime.Time, next uint64) {
	for ; e.next < next; e.next++ {
		if !e.seen[e.next] {
			e.n.w.t.Fatalf("in order to %d, and %d has not come up", next, e.next)
		}
		delete(e.seen, e.next)
	}
}

func (e *end) HandleAcked(_ monotime.Time, next uint64) {
	if next <= e.acked || next > e.peer.next {
		e.n.w.t.Fatalf("acknowledged to %d after %d, and the peer has %d", next, e.acked, e.peer.next)
	}
	e.acked = next
}

func (e *end) had(k EventKind) (Reason, bool) {
	for _, ev := range e.events {
		if ev.Kind == k {
			return ev.Reason, true
		}
	}
	return 0, false
}

// run lets time pass until done says so; it reports false at the end of d.
func (w *world) run(d monotime.Duration, done func() bool) bool {
	end := w.net.Now().Add(d)
	for !done() {
		if !w.net.Step(end) {
			return done()
		}
	}
	return true
}
