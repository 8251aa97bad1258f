// SPDX-License-Identifier: BSD-2-Clause

package rdma

import (
	"bytes"
	"net/netip"
	"slices"
	"testing"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/ntb/channel"
	"verbena/internal/ntb/window"
	wire "verbena/internal/wire/ntb"
)

func (s *side) wantFrame(why string, want []byte) {
	s.t.Helper()
	buf := make([]byte, wire.MaxFrameBytes)
	n, ok := s.node.PollFrame(s.world.now, buf)
	if !ok || !bytes.Equal(buf[:n], want) {
		s.t.Fatalf("%s: %s: %d bytes, %v, want %d", s.name, why, n, ok, len(want))
	}
}

// frame is the nth of a test, of a length that differs from most others'.
func frame(n, size int) []byte {
	p := make([]byte, size)
	for i := range p {
		p[i] = byte(i*3 + n)
	}
	return p
}

func TestDatagramsArriveInOrderAndWhole(t *testing.T) {
	for _, size := range []int{MinWindowBytes, 1 << 20, 1 << 22} {
		p := newPair(t, func(o *options) { o.windowBytes = size })
		n, longest := p.a.node, p.a.node.MaxFrame()
		if longest < 1518+4 {
			t.Errorf("window of %d: frames of %d bytes at most", size, longest)
		}
		for round := range 200 { // several times around the ring, in steps that meet its end anywhere
			size := []int{1, 60, 7 + round*37%1500, longest - round%9}[round%4]
			a, b := frame(round, size), frame(round+1, 33)
			if !n.SendFrame(p.now, a) || !n.SendFrame(p.now, b) || !n.SendMAD(p.now, b) {
				t.Fatalf("round %d: no room", round)
			}
			p.carry()
			if !p.b.node.FrameWaits() || !p.b.node.MADWaits() {
				t.Fatal("nothing waits")
			}
			p.b.wantFrame("first", a)
			p.b.wantFrame("second", b)
			var mad [wire.ManagementBytes]byte
			if k, ok := p.b.node.PollMAD(p.now, mad[:]); !ok || !bytes.Equal(mad[:k], b) {
				t.Fatalf("MAD of %d bytes, %v", k, ok)
			}
			if p.b.node.FrameWaits() || p.b.node.MADWaits() {
				t.Fatal("something is left")
			}
		}
		if c := p.b.node.Count; c[RcvdFrames] != 400 || c[RcvdMADs] != 200 || n.Count[SentFrames] != 400 || n.Count[SentMADs] != 200 || n.Count[DroppedFrames] != 0 {
			t.Errorf("counted %v and %v", c, n.Count)
		}
	}
}

// A receiver that is too slow loses the datagrams that have no room, and gets the rest. The sender
// is never held up.
func TestFullRingDrops(t *testing.T) {
	p := newPair(t)
	n, sent := p.a.node, 0
	for i := range 100 {
		fits, was := n.FrameFits(9000), sent
		if n.SendFrame(p.now, frame(i, 9000)) {
			sent++
		}
		if fits != (sent > was) {
			t.Fatalf("frame %d fits: %v; it went: %v", i, fits, sent > was)
		}
		p.carry()
	}
	if sent == 0 || n.Count[DroppedFrames] != uint64(100-sent) || n.Count[SentFrames] != uint64(sent) {
		t.Fatalf("%d sent, counted %d and %d dropped", sent, n.Count[SentFrames], n.Count[DroppedFrames])
	}
	if !n.SendMAD(p.now, frame(0, wire.ManagementBytes)) {
		t.Error("frames take the room of management datagrams")
	}
	for i := range sent {
		p.b.wantFrame("kept", frame(i, 9000))
	}
	p.carry() // the credit
	longest := frame(7, n.MaxFrame())
	if !n.SendFrame(p.now, longest) {
		t.Fatal("no room after all was taken")
	}
	p.carry()
	p.b.wantFrame("after it", longest)
	for _, size := range []int{0, n.MaxFrame() + 1} {
		if size > 0 && n.FrameFits(size) || n.SendFrame(p.now, make([]byte, size)) {
			t.Errorf("%d bytes were sent", size)
		}
	}
	if n.SendMAD(p.now, make([]byte, wire.ManagementBytes+1)) {
		t.Error("a MAD of 289 bytes was sent")
	}
}

// TestMADsWaitForRoom has a peer not take its MADs for a while. None is lost, up to a bound, and
// their sender finds out about the room by itself.
func TestMADsWaitForRoom(t *testing.T) {
	p := newPair(t)
	n, sent := p.a.node, 0
	inRing := int(n.mads.out.Cap / wire.RecordBytes(wire.ManagementBytes))
	for n.SendMAD(p.now, frame(sent, wire.ManagementBytes)) {
		sent++
		p.carry()
	}
	if least := inRing + 3000; sent < least || n.Count[DroppedMADs] != 1 {
		t.Fatalf("%d MADs were taken, %d dropped, want at least %d and 1", sent,
			n.Count[DroppedMADs], least)
	}
	if w := len(n.mads.waiting); w > madBacklog {
		t.Errorf("%d bytes wait", w)
	}
	var buf [wire.ManagementBytes]byte
	for i := range sent {
		if !p.b.node.MADWaits() { // the peer tells its progress without a signal
			p.pass(roomPause)
		}
		k, ok := p.b.node.PollMAD(p.now, buf[:])
		if !ok || !bytes.Equal(buf[:k], frame(i, wire.ManagementBytes)) {
			t.Fatalf("MAD %d of %d: %d bytes, %v", i, sent, k, ok)
		}
	}
	p.carry()
	if next := n.NextTimeout(); next < p.now.Add(2*roomPause) {
		t.Errorf("looks for room again at %v, now is %v", next, p.now)
	}
}

// However little is taken at a time, the longest frame has its turn.
func TestCreditsSuffice(t *testing.T) {
	p := newPair(t, func(o *options) { o.windowBytes = MinWindowBytes })
	n, buf := p.a.node, make([]byte, wire.MaxFrameBytes)
	for i := range 3000 {
		for n.SendFrame(p.now, frame(i, 1+i*41%700)) {
		}
		p.carry()
		for range 1 + i%5 {
			p.b.node.PollFrame(p.now, buf)
		}
		p.carry()
		if i%100 > 0 {
			continue
		}
		for ok := true; ok; _, ok = p.b.node.PollFrame(p.now, buf) {
		}
		if p.carry(); !n.SendFrame(p.now, frame(i, n.MaxFrame())) {
			t.Fatalf("round %d: no room in an empty ring", i)
		}
	}
}

func TestFrameLongerThanTheBufferIsDropped(t *testing.T) {
	p := newPair(t)
	p.a.node.SendFrame(p.now, frame(1, 2000))
	p.a.node.SendFrame(p.now, frame(2, 100))
	p.carry()
	buf := make([]byte, 1518)
	if n, ok := p.b.node.PollFrame(p.now, buf); !ok || !bytes.Equal(buf[:n], frame(2, 100)) || p.b.node.Count[DroppedFrames] != 1 {
		t.Errorf("%d bytes, %v, %d dropped", n, ok, p.b.node.Count[DroppedFrames])
	}
}

// A link that goes down drops waiting datagrams on both sides.
func TestDatagramsEndWithTheLink(t *testing.T) {
	p := newPair(t)
	p.a.node.SendFrame(p.now, frame(1, 100))
	p.carry() // arrived, and not taken
	p.a.node.SendFrame(p.now, frame(2, 100))
	p.a.node.SendMAD(p.now, frame(2, 100)) // not yet written
	p.b.node.SetAddrs([]netip.Addr{netip.MustParseAddr("192.0.2.1")})
	p.carry()
	p.a.node.SendFrame(p.now, frame(3, 100))
	p.a.node.Reset(p.now)
	if p.a.node.SendMAD(p.now, frame(3, 100)) || p.a.node.MaxFrame() != 0 || p.a.node.FrameWaits() || p.a.node.PeerAddrs() != nil {
		t.Error("the link is down, and is used")
	}
	p.pass(monotime.Second)
	if p.b.node.FrameWaits() || p.b.node.MADWaits() {
		t.Error("datagrams of the session before")
	}
	if got := p.a.node.PeerAddrs(); len(got) != 1 {
		t.Errorf("addresses %v", got)
	}
	p.a.node.SendFrame(p.now, frame(4, 100))
	p.carry()
	p.b.wantFrame("in the new session", frame(4, 100))
}

// Frames without end do not keep a queue pair from sending, nor it them.
func TestDatagramsAndRequestsTakeTurns(t *testing.T) {
	p := newPair(t)
	x, y := p.connected(0x11)
	for i := range 60 {
		p.a.node.SendFrame(p.now, frame(i, 400))
		x.postQuietly(ib.WRRDMAWrite, 8, 64, y)
	}
	x.q.Doorbell(p.now)
	for range 3 {
		p.a.node.SendFrame(p.now, frame(0, 400))
		if p.a.node.PollOutput(p.now, p.a.batch) {
			if err := p.a.batch.Apply(p.b.own.Far()); err != nil {
				t.Fatal(err)
			}
			p.a.batch.Reset()
		}
	}
	if !p.b.node.FrameWaits() || x.q.far.posted == 0 {
		t.Errorf("frames wait: %v, requests posted: %d", p.b.node.FrameWaits(), x.q.far.posted)
	}
	p.carry()
	if len(x.sends.list) != 60 {
		t.Errorf("%d completions", len(x.sends.list))
	}
}

// A peer may write anything into the words of a ring, and before a datagram.
func TestDatagramRingsAreChecked(t *testing.T) {
	type change func(w *window.Window, r *wire.DatagramRing)
	header := func(h wire.RecordHeader, posted uint32) change {
		return func(w *window.Window, r *wire.DatagramRing) {
			w.CopyIn(r.BytesAt(), h.Append(nil))
			w.Store4(r.PostedAt(), posted)
		}
	}
	for name, c := range map[string]struct {
		change
		bad bool
	}{
		"good":                    {header(wire.RecordHeader{Bytes: 64}, 72), false},
		"two, one not yet whole":  {header(wire.RecordHeader{Bytes: 60}, 80), false},
		"more than the ring":      {header(wire.RecordHeader{Bytes: 64}, 1<<20), true},
		"less than a header":      {header(wire.RecordHeader{Bytes: 64}, 4), true},
		"backwards":               {header(wire.RecordHeader{Bytes: 64}, ^uint32(0)-7), true},
		"longer than what posted": {header(wire.RecordHeader{Bytes: 65}, 72), true},
		"longer than the longest": {header(wire.RecordHeader{Bytes: 1 << 15}, 1<<15+8), true},
		"a length that wraps":     {header(wire.RecordHeader{Bytes: ^uint32(0) - 3}, 72), true},
		"no bytes":                {header(wire.RecordHeader{}, 8), true},
		"not the next":            {header(wire.RecordHeader{Bytes: 64, Index: 72}, 72), true},
	} {
		p := newPair(t)
		n, buf := p.b.node, make([]byte, wire.MaxFrameBytes)
		c.change(p.b.own, &n.frames.in)
		size, ok := n.PollFrame(p.now, buf)
		if ok == c.bad || n.Up() == c.bad || (n.Count[BadIndex] > 0) != c.bad {
			t.Errorf("%s: %d bytes, %v; link up: %v", name, size, ok, n.Up())
		}
	}
	for name, taken := range map[string]uint32{"what was not sent": 8, "backwards": ^uint32(0) - 7} {
		p := newPair(t)
		n := p.b.node
		p.b.own.Store4(n.mads.in.TakenAt(), taken)
		if n.SendMAD(p.now, frame(1, 64)) || n.Up() || n.Count[BadIndex] != 1 {
			t.Errorf("%s taken: link up: %v", name, n.Up())
		}

		p = newPair(t)
		n = p.b.node
		n.SendMAD(p.now, frame(1, 64))
		p.b.own.Store4(n.mads.in.TakenAt(), taken)
		n.PollOutput(p.now, p.b.batch)
		if n.Up() || n.Count[BadIndex] != 1 {
			t.Errorf("%s taken while one waits: link up: %v", name, n.Up())
		}

		p = newPair(t)
		n = p.b.node
		for p.a.node.FrameFits(9000) { // the ring fills: to empty it is worth telling
			p.a.node.SendFrame(p.now, frame(1, 9000))
			p.carry()
			p.b.wantFrame("taken", frame(1, 9000))
			if n.frames.taken.Since(n.frames.told) >= n.frames.in.Cap/8 {
				break
			}
		}
		n.SendMAD(p.now, frame(1, 64))
		p.b.own.Store4(n.mads.in.TakenAt(), taken)
		told := n.frames.told
		n.PollOutput(p.now, p.b.batch)
		if n.Up() || n.frames.taken == n.frames.told || n.frames.told != told {
			t.Errorf("%s taken: link up: %v; progress in frames was written after the reset", name, n.Up())
		}
	}
}

// The peer's rings, as its hello has them.
func TestDatagramRingsOfTheHello(t *testing.T) {
	p := newPair(t)
	n := p.a.node
	for name, c := range map[string]struct {
		change func(r *wire.Resources)
		ok     bool
	}{
		"as it was":                  {func(r *wire.Resources) {}, true},
		"no power of two":            {func(r *wire.Resources) { r.Frames.Cap-- }, false},
		"none":                       {func(r *wire.Resources) { r.MADs = wire.DatagramRing{} }, false},
		"too large":                  {func(r *wire.Resources) { r.Frames.Cap = 2 * wire.MaxDatagramRing }, false},
		"outside":                    {func(r *wire.Resources) { r.Frames.At = p.b.own.Len() - 64 }, false},
		"at the end of all":          {func(r *wire.Resources) { r.Frames.At = ^uint64(0) &^ 7 }, false},
		"in the info page":           {func(r *wire.Resources) { r.MADs.At = 0 }, false},
		"not aligned":                {func(r *wire.Resources) { r.MADs.At += 4 }, false},
		"longest does not fit twice": {func(r *wire.Resources) { r.Frames.Max = r.Frames.Cap/2 - 7 }, false},
		"longest wraps":              {func(r *wire.Resources) { r.Frames.Max = ^uint32(0) }, false},
		"no frame fits":              {func(r *wire.Resources) { r.Frames.Max = 0 }, false},
		"no MAD fits":                {func(r *wire.Resources) { r.MADs.Max = wire.ManagementBytes - 1 }, false},
	} {
		r := n.peer
		if c.change(&r); checkResources(n.ch, &r) != c.ok {
			t.Errorf("%s: accepted: %v", name, !c.ok)
		}
	}
}

// Each node knows the addresses that the other one has now.
func TestAddressesAreTold(t *testing.T) {
	list := func(s ...string) (l []netip.Addr) {
		for _, a := range s {
			l = append(l, netip.MustParseAddr(a))
		}
		return l
	}
	p := newPair(t)
	first, second := list("192.0.2.1", "fe80::1%eth7"), list("192.0.2.2")
	p.a.node.SetAddrs(first)
	p.carry()
	if got := p.b.node.PeerAddrs(); !slices.Equal(got, list("192.0.2.1", "fe80::1")) {
		t.Errorf("told %v", got)
	}
	p.a.node.SetAddrs(first)
	p.a.node.SetAddrs(nil)
	p.a.node.SetAddrs(second)
	if k := len(p.a.node.cmds.waiting); k != 1 {
		t.Errorf("%d commands wait", k)
	}
	p.carry()
	if got := p.b.node.PeerAddrs(); !slices.Equal(got, second) {
		t.Errorf("changed to %v", got)
	}
	p.a.node.Reset(p.now)
	p.pass(monotime.Second)
	if got := p.b.node.PeerAddrs(); !slices.Equal(got, second) {
		t.Errorf("with the link back: %v", got)
	}
	// A MAD that comes after new addresses finds them known, however late it is looked for.
	p.a.node.SetAddrs(first)
	p.a.node.SendMAD(p.now, frame(1, 64))
	p.b.node.Handle(p.now)
	p.carryOne()
	if _, ok := p.b.node.PollMAD(p.now, make([]byte, wire.ManagementBytes)); !ok || len(p.b.node.PeerAddrs()) != 2 {
		t.Errorf("a MAD before the addresses %v", p.b.node.PeerAddrs())
	}
	many := make([]netip.Addr, wire.MaxAddresses+3)
	for i := range many {
		many[i] = netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)})
	}
	p.a.node.SetAddrs(many)
	p.carry()
	if got := p.b.node.PeerAddrs(); !slices.Equal(got, many[:wire.MaxAddresses]) {
		t.Errorf("of many: %v", got)
	}
	for name, a := range map[string]string{"unspecified": "0.0.0.0", "multicast": "ff02::1"} {
		c := wire.Addresses{Count: 1, GIDs: [wire.MaxAddresses]ib.GID{ib.GIDFromAddr(netip.MustParseAddr(a))}}
		if s := p.b.node.execute(p.now, wire.OpAddresses, c.Append(nil), nil); s != wire.CommandMalformed {
			t.Errorf("%s: %v", name, s)
		}
	}
}

// Datagrams allocate nothing once their buffers have grown.
func TestDatagramsDoNotAllocate(t *testing.T) {
	p := newPair(t)
	f, buf := frame(1, 9000), make([]byte, wire.MaxFrameBytes)
	step := func() {
		p.a.node.SendFrame(p.now, f)
		p.a.node.SendMAD(p.now, f[:wire.ManagementBytes])
		for p.step() {
		}
		_, frame := p.b.node.PollFrame(p.now, buf)
		_, mad := p.b.node.PollMAD(p.now, buf)
		if !frame || !mad {
			t.Fatal("nothing came")
		}
	}
	for range 100 {
		step()
	}
	if a := testing.AllocsPerRun(100, step); a > 0 {
		t.Errorf("%v allocations", a)
	}
}

func BenchmarkFrames(b *testing.B) {
	for name, size := range map[string]int{"64B": 64, "1500B": 1500, "9000B": 9000} {
		b.Run(name, func(b *testing.B) {
			p := newPair(b, func(o *options) { o.windowBytes = 1 << 24 })
			f, buf := frame(1, size), make([]byte, wire.MaxFrameBytes)
			b.SetBytes(int64(size))
			for b.Loop() {
				p.a.node.SendFrame(p.now, f)
				p.carryOne()
				if _, ok := p.b.node.PollFrame(p.now, buf); !ok {
					b.Fatal("nothing came")
				}
			}
		})
	}
}

// carryOne carries a's writes, and b's credits.
func (p *pair) carryOne() {
	for _, s := range []*side{p.a, p.b} {
		to := p.a
		if s == p.a {
			to = p.b
		}
		for s.node.PollOutput(p.now, s.batch) {
			if err := s.batch.Apply(to.own.Far()); err != nil && err != channel.ErrFault {
				p.t.Fatal(err)
			}
			s.batch.Reset()
		}
	}
}
