// SPDX-License-Identifier: BSD-2-Clause

//go:build linux

package roce

import (
	"sync"
	"sync/atomic"
	"testing"

	"verbena/ib"
	"verbena/internal/engine"
	"verbena/internal/monotime"
	"verbena/internal/roce"
	"verbena/internal/roce/rc"
	"verbena/internal/sys/faultcap"
	"verbena/internal/sys/portshare"
	"verbena/internal/sys/udp"
	"verbena/internal/testkit/rig"
	"verbena/internal/testkit/xdpwire"
)

// laneNodes returns nodes that share a port, the second with so many queue pairs of a Lane each,
// connected with as many of the first.
func laneNodes(t *testing.T, lanes int) (a, b []*endpoint) {
	t.Helper()
	dir := t.TempDir()
	x := startNode(t, monotime.Millisecond, how{Dir: dir, NoLocal: true})
	y := startNode(t, monotime.Millisecond, how{Dir: dir, NoLocal: true})
	for range lanes {
		e := newEndpoint(x, 4096)
		peer := asOf(y, y.Eng.NewLane(), 4096, func(_ *endpoint, c roce.Config) roce.Machine { return rc.New(c) })
		connectAt(e, peer.QPN(), y.Addr, 17, 7)
		connectAt(peer, e.QPN(), x.Addr, 17, 7)
		t.Cleanup(e.CloseOnce)
		t.Cleanup(peer.CloseOnce)
		a, b = append(a, e), append(b, peer)
	}
	return a, b
}

// port returns the Port of a node's address.
func port(t *testing.T, n *node) *Port {
	t.Helper()
	tr := Of(n.Eng)
	tr.mu.Lock()
	defer tr.mu.Unlock()
	p := tr.opened[n.Addr]
	if p == nil || p.division == nil {
		t.Fatal("the address has no port that could be divided")
	}
	return p
}

// laneOf returns an endpoint's Lane.
func laneOf(e *endpoint) *engine.Lane { return connOf(e).ack.Lane() }

// received returns the datagrams that the sockets of a node's inputs have received.
func received(n *node) (each []uint64, all uint64) {
	for _, in := range n.Eng.Probe().Inputs() {
		k := in.(*Port).raw.Counters().RcvdDatagrams
		each, all = append(each, k), all+k
	}
	return each, all
}

// A Port is divided while packets come. None is lost, and none of a queue pair overtakes another.
// Each Lane's packets come to its own socket then, and there are as many as there are parts.
func TestPortIsDividedUnderTraffic(t *testing.T) {
	a, b := laneNodes(t, portshare.Parts+2)
	y := b[0].Node
	p := port(t, y)
	var stop atomic.Bool
	var all sync.WaitGroup
	defer all.Wait()
	defer stop.Store(true)
	for i := range a {
		all.Go(func() {
			for n := 0; !stop.Load(); n++ {
				const depth = 4
				for range depth {
					a[i].Write(b[i], 64)
				}
				for range depth {
					if wc := a[i].Await(); wc.Status != ib.WCSuccess {
						t.Errorf("queue pair %d, round %d: %v", i, n, wc.Err())
						return
					}
				}
			}
		})
	}
	for i, e := range b {
		p.Divide(laneOf(e))
		want := min(i+2, portshare.Parts) // the last part keeps the first socket
		rig.Until(t, "the division ends", func() bool {
			return len(y.Eng.Probe().Inputs()) == want && (!p.division.busy.Load() || want == portshare.Parts)
		})
	}
	before, _ := received(y)
	rig.Until(t, "packets come to each socket", func() bool {
		each, _ := received(y)
		for i, n := range each {
			if n < before[i]+10 {
				return false
			}
		}
		return true
	})
	stop.Store(true)
	all.Wait()
	if n := len(y.Eng.Probe().Inputs()); n != portshare.Parts {
		t.Errorf("%d sockets, want %d", n, portshare.Parts)
	}
	for _, name := range []string{"unknown_qp", "out_of_seq_request"} {
		if n := y.Counter(name); n != 0 {
			t.Errorf("%s is %d", name, n)
		}
	}
	// A time-out on a busy machine repeats packets, which arrive then, too.
	var came, left uint64
	rig.Until(t, "all datagrams have come", func() bool {
		_, left = sent(a[0].Node)
		_, came = received(y)
		return came == left
	})
}

// An engine that is closed while a Port is divided leaves no descriptor.
func TestCloseWhileDividing(t *testing.T) {
	before := -1
	for range 20 {
		dir := t.TempDir()
		n := startNode(t, monotime.Millisecond, how{Dir: dir, NoLocal: true})
		lane := n.Eng.NewLane()
		n.Eng.NewLane()
		e := asOf(n, lane, 64, func(_ *endpoint, c roce.Config) roce.Machine { return rc.New(c) })
		connectAt(e, 0x123456, n.Addr, 14, 7)
		port(t, n).Divide(lane)
		e.Close()
		if err := n.Eng.Close(); err != nil {
			t.Error(err)
		}
		if before < 0 {
			before = openFiles(t)
		}
	}
	rig.Until(t, "the descriptors are closed", func() bool { return openFiles(t) <= before })
}

// A process without a keeper for several cannot divide its port, and goes on with one.
func TestSoloPortIsNotDivided(t *testing.T) {
	xdpwire.Skip(t, "its nodes are alone on a port")
	a, b := pair(t, monotime.Millisecond, 4096)
	p := port(t, b.Node)
	p.Divide(laneOf(b))
	a.Write(b, 64)
	if wc := a.Await(); wc.Status != ib.WCSuccess {
		t.Fatal(wc.Err())
	}
	if n := len(b.Node.Eng.Probe().Inputs()); n != 1 {
		t.Errorf("%d sockets", n)
	}
}

// flooded is a socket that always has another message.
type flooded struct {
	faultcap.Socket
	read int
}

func (f *flooded) ReadBatch(b *udp.RxBatch) (int, error) {
	b.Clear()
	at := f.LocalAddr()
	b.Add(udp.Message{Data: []byte("no packet"), Src: at, Dst: at.Addr()})
	f.read++
	return 1, nil
}

// A division handles what the socket can have held, however few messages a read returns. It ends
// although more come.
func TestDrainOfFloodedPort(t *testing.T) {
	_, b := laneNodes(t, 1)
	p := port(t, b[0].Node)
	p.rxMu.Lock()
	own := p.sock
	flood := &flooded{Socket: own}
	p.sock = flood
	p.rxMu.Unlock()
	p.drain()
	p.rxMu.Lock()
	p.sock = own
	read := flood.read
	p.rxMu.Unlock()
	if most := p.raw.MaxQueued(); read < most {
		t.Errorf("%d messages are handled, of %d that the socket can hold", read, most)
	}
}
