// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/roce"
	"verbena/internal/sys/faultcap"
	"verbena/internal/sys/shmring"
)

// meet starts engines that share the port, as processes of one user do, each on
// an address of its own.
func meet(t testing.TB, options ...Options) []*node {
	t.Helper()
	return meetWith(t, defaultBackoff, options...)
}

func meetWith(t testing.TB, backoff monotime.Duration, options ...Options) []*node {
	t.Helper()
	dir, err := os.MkdirTemp("", "ring") // t.TempDir may be longer than a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	var all []*node
	for _, o := range options {
		o.Dir = dir
		n := startNode(t, backoff, o)
		n.dir = dir
		all = append(all, n)
	}
	return all
}

// couple connects a queue pair of each of two nodes.
func couple(t testing.TB, m, n *node, bytes int) (a, b *endpoint) {
	t.Helper()
	a, b = m.endpoint(bytes), n.endpoint(bytes)
	a.connect(b)
	b.connect(a)
	t.Cleanup(func() {
		for _, e := range []*endpoint{a, b} {
			if !e.closed {
				e.Close()
			}
		}
	})
	return a, b
}

// ringCouple is couple with a ring each way. A busy machine may answer too late
// once, and is asked again.
func ringCouple(t testing.TB, m, n *node, bytes int) (a, b *endpoint) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("rings need memfds, which only Linux has")
	}
	until(t, "there are rings", func() bool {
		if a != nil {
			a.Close()
			b.Close()
		}
		a, b = couple(t, m, n, bytes)
		return a.roce.ring != nil && b.roce.ring != nil
	})
	return a, b
}

// localPair is couple of two nodes between which there must be rings.
func localPair(t testing.TB, bytes int) (a, b *endpoint) {
	t.Helper()
	nodes := meet(t, Options{}, Options{})
	a, b = ringCouple(t, nodes[0], nodes[1], bytes)
	for _, e := range []*endpoint{a, b} {
		until(t, "the ring is read", func() bool { return len(*e.node.eng.local.rings.Load()) > 0 })
	}
	return a, b
}

// fill writes what differs for each seed, 0 zeros.
func (e *endpoint) fill(seed uint64) {
	e.Lock() // a background goroutine may have touched it
	defer e.Unlock()
	if seed == 0 {
		clear(e.buf)
		return
	}
	r := rand.New(rand.NewPCG(seed, seed))
	for at := 0; at+8 <= len(e.buf); at += 8 {
		binary.NativeEndian.PutUint64(e.buf[at:], r.Uint64())
	}
}

// post posts one signaled work request of the first n bytes of both buffers.
func (e *endpoint) post(peer *endpoint, op ib.WROpcode, n int) {
	e.node.t.Helper()
	e.Lock()
	w, ok := e.sq.Reserve()
	if !ok {
		e.node.t.Fatal("the send queue is full")
	}
	w.Opcode, w.Flags, w.Length, w.RKey = op, ib.SendSignaled, uint32(n), peer.region.RKey()
	w.CompareAdd = 5
	w.SGE = append(w.SGE, ib.SGE{Length: uint32(n), LKey: e.region.LKey()})
	e.sq.Commit()
	e.Ring()
}

// succeed waits for a completion, with both applications polling or neither.
func (e *endpoint) succeed(peer *endpoint, polling bool) {
	e.node.t.Helper()
	var wc ib.WC
	if polling {
		wc = pollBoth(e, peer)
	} else {
		wc = e.await()
	}
	if wc.Status != ib.WCSuccess {
		e.node.t.Fatal(wc.Err())
	}
}

// same fails unless both buffers have the same bytes; their connections are
// locked, as the other side's writer may have been another thread.
func same(t *testing.T, a, b *endpoint) {
	t.Helper()
	a.Lock()
	b.Lock()
	defer a.Unlock()
	defer b.Unlock()
	if sha256.Sum256(a.buf) != sha256.Sum256(b.buf) {
		t.Fatal("the bytes differ")
	}
}

// TestLocalOperations carries every kind of request between two engines and
// within one, of sizes around those of packets and trains, polled for and waited
// for; and sees that no packet went through a socket.
func TestLocalOperations(t *testing.T) {
	const longest = 300000
	run := func(t *testing.T, a, b *endpoint) {
		seed := uint64(1)
		for _, polling := range []bool{true, false} {
			for _, n := range []int{8, 512, 513, 1024, 1032, 65000, 65536, longest} {
				for _, op := range []ib.WROpcode{ib.WRSend, ib.WRRDMAWrite, ib.WRRDMARead} {
					seed++
					a.buf, b.buf = a.buf[:n], b.buf[:n]
					from, to := a, b
					if op == ib.WRRDMARead {
						from, to = b, a
					}
					from.fill(seed)
					to.fill(0)
					if op == ib.WRSend {
						b.recv()
					}
					a.post(b, op, n)
					a.succeed(b, polling)
					if op == ib.WRSend {
						b.succeed(a, polling)
					}
					same(t, a, b)
				}
			}
			b.fill(0)
			a.buf = a.buf[:8]
			for i := range uint64(100) {
				a.post(b, ib.WRAtomicFetchAndAdd, 8)
				a.succeed(b, polling)
				a.Lock()
				got := binary.NativeEndian.Uint64(a.buf)
				a.Unlock()
				if got != 5*i {
					t.Fatalf("fetched %d, not %d", got, 5*i)
				}
			}
		}
		for _, e := range []*endpoint{a, b} {
			sent, out := e.node.counter("sent_pkts"), e.node.counter("local_sent_pkts")
			if sent == 0 || sent != out || e.node.counter("local_lost") != 0 || e.node.counter("local_refused") != 0 {
				t.Errorf("of %d packets %d went through a ring; %d lost, %d refused", sent, out, e.node.counter("local_lost"), e.node.counter("local_refused"))
			}
		}
	}
	t.Run("two", func(t *testing.T) {
		a, b := localPair(t, longest)
		run(t, a, b)
	})
	t.Run("one", func(t *testing.T) {
		n := meet(t, Options{})[0]
		a, b := couple(t, n, n, longest)
		run(t, a, b)
	})
	t.Run("solo", func(t *testing.T) {
		n := newNode(t, defaultBackoff)
		a, b := couple(t, n, n, longest)
		run(t, a, b)
	})
}

// TestLocalOff switches rings off on one side, or both, or has the two not meet:
// packets go through sockets.
func TestLocalOff(t *testing.T) {
	off := Options{NoLocal: true}
	for name, nodes := range map[string][]*node{
		"the one":      meet(t, off, Options{}),
		"the other":    meet(t, Options{}, off),
		"both":         meet(t, off, off),
		"do not meet":  {meet(t, Options{})[0], meet(t, Options{})[0]},
		"by a capture": meet(t, Options{Capture: faultcap.NewCapture(nowhere{})}, Options{}),
	} {
		t.Run(name, func(t *testing.T) {
			a, b := couple(t, nodes[0], nodes[1], 100000)
			a.fill(3)
			a.post(b, ib.WRRDMAWrite, len(a.buf))
			a.succeed(b, true)
			same(t, a, b)
			for _, n := range nodes {
				if sent, local := n.counter("sent_pkts"), n.counter("local_sent_pkts"); sent == 0 || local != 0 {
					t.Errorf("of %d packets %d went through a ring", sent, local)
				}
			}
		})
	}
}

// nowhere is a capture's file that keeps nothing.
type nowhere struct{ faultcap.Sink }

func (nowhere) Write(time.Time, netip.AddrPort, netip.AddrPort, uint16, ...[]byte) error { return nil }

// TestRingIsFull has a reader that is held up: nothing is lost, and all goes on
// when it is back.
func TestRingIsFull(t *testing.T) {
	a, b := localPair(t, 256<<10)
	in := (*b.node.eng.local.rings.Load())[0]
	for round := range uint64(5) {
		a.fill(round + 1)
		in.rxMu.Lock()
		for range 32 {
			a.post(b, ib.WRRDMAWrite, len(a.buf))
		}
		in.rxMu.Unlock()
		for range 32 {
			a.succeed(b, false)
		}
		same(t, a, b)
	}
	if n := b.node.counter("out_of_seq_request"); n != 0 && a.node.counter("local_lost") == 0 {
		t.Errorf("%d packets came out of order though none was lost", n)
	}
}

// TestReaderIsStopped has a reader that is held for longer than all retries take: no
// retry is spent and nothing is sent twice, also by a queue pair that has sent nothing
// into the ring that others filled.
func TestReaderIsStopped(t *testing.T) {
	a, b := localPair(t, 256<<10)
	other, _ := couple(t, a.node, b.node, 4096)
	for _, e := range []*endpoint{a, other} {
		quick := ib.QPAttr{Timeout: 8, RetryCnt: 1, RNRRetry: 1}
		e.Lock()
		e.roce.packets.Modify(monotime.Now(), &quick, ib.QPTimeout|ib.QPRetryCnt, nil)
		e.Unlock()
	}
	in := (*b.node.eng.local.rings.Load())[0]
	in.rxMu.Lock()
	for range 60 {
		a.post(b, ib.WRRDMAWrite, len(a.buf))
	}
	other.post(b, ib.WRRDMAWrite, 8)
	held := monotime.Now()
	until(t, "all retries would have been spent", func() bool {
		a.node.eng.Poll()
		return monotime.Now().Sub(held) > 20*monotime.Millisecond && a.node.eng.wire.localBehind.Load() > 3
	})
	in.rxMu.Unlock()
	for range 60 {
		a.succeed(b, false)
	}
	other.succeed(b, false)
	for _, e := range []*endpoint{a, other} {
		e.notRepeated()
	}
}

// notRepeated fails if packets were sent or came twice.
func (e *endpoint) notRepeated() {
	e.node.t.Helper()
	e.Lock()
	defer e.Unlock()
	c := e.roce.packets.Counters()
	for _, k := range []roce.Counter{roce.Retransmitted, roce.TailProbe, roce.LocalACKTimeout, roce.DuplicateRequest} {
		if c[k] != 0 {
			e.node.t.Errorf("%v is %d", k, c[k])
		}
	}
}

// TestRingEnds ends rings under traffic: what was in them is sent again through
// sockets.
func TestRingEnds(t *testing.T) {
	for round := range uint64(5) {
		round++
		a, b := localPair(t, 64<<10)
		in := (*b.node.eng.local.rings.Load())[0]
		a.fill(round)
		b.fill(round + 100)
		for i := range 500 {
			if i == 100 {
				in.in.HangUp()
			}
			if i == 200 {
				(*a.node.eng.local.rings.Load())[0].in.HangUp()
			}
			a.post(b, ib.WRRDMAWrite, len(a.buf))
			a.succeed(b, i%2 == 0)
		}
		same(t, a, b)
		for _, e := range []*endpoint{a, b} {
			until(t, "the ring is gone", func() bool {
				e.Lock()
				defer e.Unlock()
				return e.roce.ring == nil || !e.roce.ring.alive()
			})
			if len(*e.node.eng.local.rings.Load()) != 0 {
				t.Error("a ring is still read")
			}
		}
	}
}

// TestRingAgain connects queue pairs anew after a ring ended: there is another.
func TestRingAgain(t *testing.T) {
	a, b := localPair(t, 4096)
	old := a.roce.ring
	(*b.node.eng.local.rings.Load())[0].in.HangUp()
	until(t, "the ring is gone", func() bool { return !old.alive() })
	c, d := couple(t, a.node, b.node, 4096)
	if c.roce.ring == nil || c.roce.ring == old {
		t.Fatal("no other ring")
	}
	c.fill(1)
	c.post(d, ib.WRRDMAWrite, len(c.buf))
	c.succeed(d, true)
	same(t, c, d)
}

// TestHostileRing has another process of this user write what it likes into a
// ring: packets for queue pairs that are not its, packets that are none, and
// words that are no entries. Nothing happens but counters.
func TestHostileRing(t *testing.T) {
	nodes := meet(t, Options{}, Options{}, Options{})
	a, b := ringCouple(t, nodes[0], nodes[1], 4096)
	hostile, own := ringCouple(t, nodes[2], nodes[1], 4096)
	b.fill(1)
	before := bytes.Clone(b.buf)
	// A WRITE to the queue pair of another, under its key, with every number right.
	hostile.Lock()
	hostile.roce.packets.Modify(monotime.Now(), &ib.QPAttr{DestQPN: b.QPN()}, ib.QPDestQPN, nil)
	hostile.Unlock()
	hostile.post(b, ib.WRRDMAWrite, 4096)
	until(t, "the packet is refused", func() bool { return nodes[1].counter("local_refused") > 0 })
	// The addresses of another.
	hostile.Lock()
	hostile.roce.packets.Modify(monotime.Now(), &ib.QPAttr{DestQPN: own.QPN()}, ib.QPDestQPN, nil)
	hostile.roce.tag++
	refused := nodes[1].counter("local_refused")
	hostile.Unlock()
	hostile.post(own, ib.WRRDMAWrite, 8)
	until(t, "the packet is refused", func() bool { return nodes[1].counter("local_refused") > refused })
	// No packets.
	o := hostile.roce.ring
	o.mu.Lock()
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		p := make([]byte, 1+r.IntN(200))
		for i := range p {
			p[i] = byte(r.Uint32())
		}
		if memory := o.tx.Reserve(); memory != nil {
			o.tx.Commit(copy(memory, p), &shmring.Message{})
			if o.tx.MustWake() {
				o.out.Wake()
			}
		}
	}
	o.mu.Unlock()
	until(t, "they are counted", func() bool {
		return nodes[1].counter("malformed_too_short")+nodes[1].counter("malformed_bad_length") > 100
	})
	b.Lock()
	if !bytes.Equal(before, b.buf) {
		t.Error("memory was written")
	}
	b.Unlock()
	a.post(b, ib.WRRDMAWrite, 4096)
	a.succeed(b, false)
	same(t, a, b)
}

// TestLateAcknowledgements counts packets of two ends that talk in turns: one a
// message, unless a goroutine or the grace comes in between, as it may on a busy
// machine.
func TestLateAcknowledgements(t *testing.T) {
	if raceDetector {
		t.Skip("with the race detector a turn takes longer than the grace")
	}
	nodes := meetWith(t, forEver, Options{}, Options{})
	turn := func(from, to *endpoint) {
		to.recv()
		from.send(2)
		var wc [1]ib.WC
		until(t, "the message is there", func() bool {
			to.node.eng.Poll()
			return to.cq.Poll(wc[:]) == 1 && wc[0].Opcode == ib.WCRecv
		})
	}
	until(t, "as many packets as messages go", func() bool {
		// Held up for longer than the grace a pair would try again only after ever more messages.
		a, b := couple(t, nodes[0], nodes[1], 64)
		defer a.Close()
		defer b.Close()
		a.node.lull()
		b.node.lull()
		before := a.node.counter("sent_pkts")
		for range lateBatches / 2 {
			turn(a, b)
			turn(b, a)
		}
		return a.node.counter("sent_pkts")-before == lateBatches/2
	})
}

func TestLocalAllocatesNothing(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	a, b := localPair(t, 64<<10)
	for _, n := range []int{8, 64 << 10} {
		if got := testing.AllocsPerRun(200, func() {
			a.post(b, ib.WRRDMAWrite, n)
			a.succeed(b, true)
		}); got >= 1 { // the background goroutines of both are running
			t.Errorf("%v allocations a WRITE of %d bytes", got, n)
		}
	}
}

// TestLocalNothingLeft closes engines that had rings: descriptors and mappings
// are gone.
func TestLocalNothingLeft(t *testing.T) {
	var before int
	for i := range 4 {
		a, b := localPair(t, 4096)
		a.post(b, ib.WRRDMAWrite, 4096)
		a.succeed(b, true)
		a.Close()
		b.Close()
		a.node.eng.Close()
		b.node.eng.Close()
		if i == 0 {
			before = descriptors()
		}
	}
	until(t, "descriptors are gone", func() bool { return descriptors() <= before })
	maps, err := os.ReadFile("/proc/self/maps")
	if err == nil && bytes.Contains(maps, []byte("verbena-ring")) {
		t.Error("a ring is still mapped")
	}
}

// BenchmarkWrite is one WRITE at a time with both sides polled by one thread,
// through a ring and through sockets.
func BenchmarkWrite(b *testing.B) {
	for name, o := range map[string]Options{"ring": {}, "socket": {NoLocal: true}} {
		for size, n := range map[string]int{"8B": 8, "64KiB": 64 << 10} {
			b.Run(name+"/"+size, func(b *testing.B) {
				nodes := meet(b, o, o)
				x, y := couple(b, nodes[0], nodes[1], n)
				b.SetBytes(int64(n))
				for b.Loop() {
					x.post(y, ib.WRRDMAWrite, n)
					x.succeed(y, true)
				}
			})
		}
	}
}
