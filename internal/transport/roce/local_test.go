// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"

	"verbena/ib"
	"verbena/internal/engine/policy"
	"verbena/internal/monotime"
	"verbena/internal/roce"
	"verbena/internal/sys/faultcap"
	"verbena/internal/testkit/rig"
	"verbena/internal/testkit/xdpwire"
	"verbena/internal/wire/pcap"
)

// meet starts engines that share the port, as processes of one user do, each on
// an address of its own.
func meet(t testing.TB, options ...how) []*node {
	t.Helper()
	return meetWith(t, policy.Nap, options...)
}

func meetWith(t testing.TB, backoff monotime.Duration, options ...how) []*node {
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
		n.Dir = dir
		all = append(all, n)
	}
	return all
}

// couple connects a queue pair of each of two nodes.
func couple(t testing.TB, m, n *node, bytes int) (a, b *endpoint) {
	t.Helper()
	a, b = newEndpoint(m, bytes), newEndpoint(n, bytes)
	connect(a, b)
	connect(b, a)
	t.Cleanup(func() {
		for _, e := range []*endpoint{a, b} {
			e.CloseOnce()
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
	rig.Until(t, "there are rings", func() bool {
		if a != nil {
			a.Close()
			b.Close()
		}
		a, b = couple(t, m, n, bytes)
		return connOf(a).ring != nil && connOf(b).ring != nil
	})
	return a, b
}

// localPair is couple of two nodes between which there must be rings.
func localPair(t testing.TB, bytes int) (a, b *endpoint) {
	t.Helper()
	nodes := meet(t, how{}, how{})
	a, b = ringCouple(t, nodes[0], nodes[1], bytes)
	for _, e := range []*endpoint{a, b} {
		rig.Until(t, "the ring is read", func() bool { return ringsOf(e.Node).Reading() > 0 })
	}
	return a, b
}

// fill writes bytes that differ for each seed; seed 0 writes zeros.
func fill(e *endpoint, seed uint64) {
	e.Lock() // a background goroutine may have touched it
	defer e.Unlock()
	if seed == 0 {
		clear(e.Buf)
		return
	}
	r := rand.New(rand.NewPCG(seed, seed))
	for at := 0; at+8 <= len(e.Buf); at += 8 {
		binary.NativeEndian.PutUint64(e.Buf[at:], r.Uint64())
	}
}

// succeed waits for a completion, with both applications polling or neither.
func succeed(e *endpoint, peer *endpoint, polling bool) {
	e.Node.T.Helper()
	var wc ib.WC
	if polling {
		wc = rig.PollBoth(e, peer)
	} else {
		wc = e.Await()
	}
	if wc.Status != ib.WCSuccess {
		e.Node.T.Fatal(wc.Err())
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
	if sha256.Sum256(a.Buf) != sha256.Sum256(b.Buf) {
		t.Fatal("the bytes differ")
	}
}

// TestLocalOperations carries every kind of request between two engines and
// within one, of sizes around those of packets and bursts, polled for and waited
// for; and sees that no packet went through a socket.
func TestLocalOperations(t *testing.T) {
	xdpwire.Skip(t, "its packets go by rings within the host")
	const longest = 300000
	run := func(t *testing.T, a, b *endpoint) {
		seed := uint64(1)
		for _, polling := range []bool{true, false} {
			for _, n := range []int{8, 512, 513, 1024, 1032, 65000, 65536, longest} {
				for _, op := range []ib.WROpcode{ib.WRSend, ib.WRRDMAWrite, ib.WRRDMARead} {
					seed++
					a.Buf, b.Buf = a.Buf[:n], b.Buf[:n]
					from, to := a, b
					if op == ib.WRRDMARead {
						from, to = b, a
					}
					fill(from, seed)
					fill(to, 0)
					if op == ib.WRSend {
						b.Recv()
					}
					a.Post(b, op, n)
					succeed(a, b, polling)
					if op == ib.WRSend {
						succeed(b, a, polling)
					}
					same(t, a, b)
				}
			}
			fill(b, 0)
			a.Buf = a.Buf[:8]
			for i := range uint64(100) {
				a.Post(b, ib.WRAtomicFetchAndAdd, 8)
				succeed(a, b, polling)
				a.Lock()
				got := binary.NativeEndian.Uint64(a.Buf)
				a.Unlock()
				if got != 5*i {
					t.Fatalf("fetched %d, not %d", got, 5*i)
				}
			}
		}
		for _, e := range []*endpoint{a, b} {
			sent, out := e.Node.Counter("sent_pkts"), e.Node.Counter("local_sent_pkts")
			if sent == 0 || sent != out || e.Node.Counter("local_lost") != 0 || e.Node.Counter("local_refused") != 0 {
				t.Errorf("of %d packets %d went through a ring; %d lost, %d refused", sent, out, e.Node.Counter("local_lost"), e.Node.Counter("local_refused"))
			}
		}
	}
	t.Run("two", func(t *testing.T) {
		a, b := localPair(t, longest)
		run(t, a, b)
	})
	t.Run("one", func(t *testing.T) {
		n := meet(t, how{})[0]
		a, b := couple(t, n, n, longest)
		run(t, a, b)
	})
	t.Run("solo", func(t *testing.T) {
		n := newNode(t, policy.Nap)
		a, b := couple(t, n, n, longest)
		run(t, a, b)
	})
}

// TestLocalOff switches rings off on one side, or both, or has the two not meet:
// packets go through sockets.
func TestLocalOff(t *testing.T) {
	off := how{NoLocal: true}
	for name, nodes := range map[string][]*node{
		"the one":      meet(t, off, how{}),
		"the other":    meet(t, how{}, off),
		"both":         meet(t, off, off),
		"do not meet":  {meet(t, how{})[0], meet(t, how{})[0]},
		"by a capture": meet(t, how{Capture: faultcap.NewCapture(nowhere{})}, how{}),
	} {
		t.Run(name, func(t *testing.T) {
			a, b := couple(t, nodes[0], nodes[1], 100000)
			fill(a, 3)
			a.Post(b, ib.WRRDMAWrite, len(a.Buf))
			succeed(a, b, true)
			same(t, a, b)
			for _, n := range nodes {
				if sent, local := n.Counter("sent_pkts"), n.Counter("local_sent_pkts"); sent == 0 || local != 0 {
					t.Errorf("of %d packets %d went through a ring", sent, local)
				}
			}
		})
	}
}

// nowhere is a capture's file that keeps nothing.
type nowhere struct{ faultcap.Sink }

func (nowhere) Write(*pcap.Datagram, ...[]byte) error { return nil }

// TestRingIsFull has a reader that is held up: nothing is lost, and all goes on
// when it is back.
func TestRingIsFull(t *testing.T) {
	a, b := localPair(t, 256<<10)
	in := ringsOf(b.Node)
	for round := range uint64(5) {
		fill(a, round+1)
		release := in.Hold()
		for range 32 {
			a.Post(b, ib.WRRDMAWrite, len(a.Buf))
		}
		release()
		for range 32 {
			succeed(a, b, false)
		}
		same(t, a, b)
	}
	if n := b.Node.Counter("out_of_seq_request"); n != 0 && a.Node.Counter("local_lost") == 0 {
		t.Errorf("%d packets came out of order though none was lost", n)
	}
}

// TestReaderIsStopped has a reader that is held for longer than all retries take: no
// retry is spent and nothing is sent twice, also by a queue pair that has sent nothing
// into the ring that others filled.
func TestReaderIsStopped(t *testing.T) {
	a, b := localPair(t, 256<<10)
	other, _ := couple(t, a.Node, b.Node, 4096)
	for _, e := range []*endpoint{a, other} {
		quick := ib.QPAttr{Timeout: 8, RetryCnt: 1, RNRRetry: 1}
		e.Lock()
		connOf(e).packets.Modify(monotime.Now(), &quick, ib.QPTimeout|ib.QPRetryCnt, nil)
		e.Unlock()
	}
	release := ringsOf(b.Node).Hold()
	for range 60 {
		a.Post(b, ib.WRRDMAWrite, len(a.Buf))
	}
	other.Post(b, ib.WRRDMAWrite, 8)
	held := monotime.Now()
	rig.Until(t, "all retries would have been spent", func() bool {
		a.Node.Eng.FirstLane().Poll()
		return monotime.Now().Sub(held) > 20*monotime.Millisecond && Of(a.Node.Eng).rings.Count.Behind.Load() > 3
	})
	release()
	for range 60 {
		succeed(a, b, false)
	}
	succeed(other, b, false)
	for _, e := range []*endpoint{a, other} {
		notRepeated(e)
	}
}

// notRepeated fails if packets were sent or came twice.
func notRepeated(e *endpoint) {
	e.Node.T.Helper()
	e.Lock()
	defer e.Unlock()
	c := connOf(e).packets.Counters()
	for _, k := range []roce.Counter{roce.Retransmitted, roce.TailProbe, roce.LocalACKTimeout, roce.DuplicateRequest} {
		if c[k] != 0 {
			e.Node.T.Errorf("%v is %d", k, c[k])
		}
	}
}

// TestRingEnds ends rings under traffic: their packets are sent again through sockets.
func TestRingEnds(t *testing.T) {
	for round := range uint64(5) {
		round++
		a, b := localPair(t, 64<<10)
		in := ringsOf(b.Node)
		fill(a, round)
		fill(b, round+100)
		for i := range 500 {
			if i == 100 {
				in.HangUp()
			}
			if i == 200 {
				ringsOf(a.Node).HangUp()
			}
			a.Post(b, ib.WRRDMAWrite, len(a.Buf))
			succeed(a, b, i%2 == 0)
		}
		same(t, a, b)
		for _, e := range []*endpoint{a, b} {
			rig.Until(t, "the ring is gone", func() bool {
				e.Lock()
				defer e.Unlock()
				return connOf(e).ring == nil || !ringsOf(e.Node).Alive(connOf(e).ring)
			})
			if ringsOf(e.Node).Reading() != 0 {
				t.Error("a ring is still read")
			}
		}
	}
}

// TestRingAgain connects queue pairs anew after a ring ended: there is another.
func TestRingAgain(t *testing.T) {
	a, b := localPair(t, 4096)
	old := connOf(a).ring
	ringsOf(b.Node).HangUp()
	rig.Until(t, "the ring is gone", func() bool { return !ringsOf(a.Node).Alive(old) })
	c, d := couple(t, a.Node, b.Node, 4096)
	if connOf(c).ring == nil || connOf(c).ring == old {
		t.Fatal("no other ring")
	}
	fill(c, 1)
	c.Post(d, ib.WRRDMAWrite, len(c.Buf))
	succeed(c, d, true)
	same(t, c, d)
}

// TestHostileRing makes another process of this user write anything into a ring: packets for queue
// pairs that are not its, bytes that are no packets, and words that are no entries. Only counters
// change.
func TestHostileRing(t *testing.T) {
	nodes := meet(t, how{}, how{}, how{})
	a, b := ringCouple(t, nodes[0], nodes[1], 4096)
	hostile, own := ringCouple(t, nodes[2], nodes[1], 4096)
	fill(b, 1)
	before := bytes.Clone(b.Buf)
	// A WRITE to the queue pair of another, under its key, with every number right.
	hostile.Lock()
	connOf(hostile).packets.Modify(monotime.Now(), &ib.QPAttr{DestQPN: b.QPN()}, ib.QPDestQPN, nil)
	hostile.Unlock()
	hostile.Post(b, ib.WRRDMAWrite, 4096)
	rig.Until(t, "the packet is refused", func() bool { return nodes[1].Counter("local_refused") > 0 })
	// The addresses of another.
	hostile.Lock()
	connOf(hostile).packets.Modify(monotime.Now(), &ib.QPAttr{DestQPN: own.QPN()}, ib.QPDestQPN, nil)
	connOf(hostile).tag++
	refused := nodes[1].Counter("local_refused")
	hostile.Unlock()
	hostile.Post(own, ib.WRRDMAWrite, 8)
	rig.Until(t, "the packet is refused", func() bool { return nodes[1].Counter("local_refused") > refused })
	// No packets.
	o := connOf(hostile).ring
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		p := make([]byte, 1+r.IntN(200))
		for i := range p {
			p[i] = byte(r.Uint32())
		}
		ringsOf(nodes[2]).Write(o, p)
	}
	rig.Until(t, "they are counted", func() bool {
		return nodes[1].Counter("malformed_too_short")+nodes[1].Counter("malformed_bad_length") > 100
	})
	b.Lock()
	if !bytes.Equal(before, b.Buf) {
		t.Error("memory was written")
	}
	b.Unlock()
	a.Post(b, ib.WRRDMAWrite, 4096)
	succeed(a, b, false)
	same(t, a, b)
}

// TestLateAcknowledgements counts packets of two ends that talk in turns: one a
// message, unless a goroutine or the grace comes in between, as it may on a busy
// machine.
func TestLateAcknowledgements(t *testing.T) {
	if raceDetector {
		t.Skip("with the race detector a turn takes longer than the grace: run without -race")
	}
	nodes := meetWith(t, forEver, how{}, how{})
	turn := func(from, to *endpoint) {
		to.Recv()
		from.Send(2)
		var wc [1]ib.WC
		rig.Until(t, "the message is there", func() bool {
			to.Node.Eng.FirstLane().Poll()
			return to.CQ.Poll(wc[:]) == 1 && wc[0].Opcode == ib.WCRecv
		})
	}
	rig.Until(t, "as many packets as messages go", func() bool {
		// Held up for longer than the grace a pair would try again only after ever more messages.
		a, b := couple(t, nodes[0], nodes[1], 64)
		defer a.Close()
		defer b.Close()
		lull(a.Node)
		lull(b.Node)
		before := a.Node.Counter("sent_pkts")
		for range policy.AckBatches / 2 {
			turn(a, b)
			turn(b, a)
		}
		return a.Node.Counter("sent_pkts")-before == uint64(policy.AckBatches/2)
	})
}

func TestLocalAllocatesNothing(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates: run without -race")
	}
	a, b := localPair(t, 64<<10)
	for _, n := range []int{8, 64 << 10} {
		if got := testing.AllocsPerRun(200, func() {
			a.Post(b, ib.WRRDMAWrite, n)
			succeed(a, b, true)
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
		a.Post(b, ib.WRRDMAWrite, 4096)
		succeed(a, b, true)
		a.Close()
		b.Close()
		a.Node.Eng.Close()
		b.Node.Eng.Close()
		if i == 0 {
			before = descriptors()
		}
	}
	rig.Until(t, "descriptors are gone", func() bool { return descriptors() <= before })
	maps, err := os.ReadFile("/proc/self/maps")
	if err == nil && bytes.Contains(maps, []byte("verbena-ring")) {
		t.Error("a ring is still mapped")
	}
}

// BenchmarkWrite is one WRITE at a time with both sides polled by one thread,
// through a ring and through sockets.
func BenchmarkWrite(b *testing.B) {
	for name, o := range map[string]how{"ring": {}, "socket": {NoLocal: true}} {
		for size, n := range map[string]int{"8B": 8, "64KiB": 64 << 10} {
			b.Run(name+"/"+size, func(b *testing.B) {
				nodes := meet(b, o, o)
				x, y := couple(b, nodes[0], nodes[1], n)
				b.SetBytes(int64(n))
				for b.Loop() {
					x.Post(y, ib.WRRDMAWrite, n)
					succeed(x, y, true)
				}
			})
		}
	}
}
