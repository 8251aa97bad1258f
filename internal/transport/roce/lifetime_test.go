// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"errors"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"verbena/ib"
	"verbena/internal/engine/policy"
	"verbena/internal/monotime"
	"verbena/internal/testkit/rig"
)

// descriptors returns how many the process has open, or 0 where the system
// does not tell.
func descriptors() int {
	d, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(d)
}

// goroutines returns how many run code of this package or below, other than
// tests.
func goroutines() (n int) {
	buf := make([]byte, 1<<20)
	for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(g, "engine.(*background)") || strings.Contains(g, "internal/sys/") || strings.Contains(g, "ntb/backend") {
			n++
		}
	}
	return n
}

// TestNothingLeft opens and closes engines with traffic on many queue pairs.
func TestNothingLeft(t *testing.T) {
	cycle := func() {
		n := newNode(t, policy.Nap)
		var eps []*endpoint
		for range 40 { // more than there are source ports
			eps = append(eps, newEndpoint(n, 256))
		}
		for i := range eps {
			connect(eps[i], eps[i^1])
		}
		for i, e := range eps {
			e.Write(eps[i^1], 256)
		}
		for i, e := range eps {
			if i%2 == 0 { // the others are closed with work outstanding, perhaps
				e.Await()
			}
		}
		for _, e := range eps {
			e.Close()
		}
		if err := n.Eng.Close(); err != nil {
			t.Fatal(err)
		}
		if n.Eng.Probe().Deadline() != monotime.Never || len(Of(n.Eng).sources) != 0 {
			t.Errorf("left: timer %v, %d sources", n.Eng.Probe().Deadline(), len(Of(n.Eng).sources))
		}
	}
	cycle() // things opened once for all, such as the runtime's poller
	rig.Until(t, "none runs", func() bool { return goroutines() == 0 })
	runs, fds := goroutines(), descriptors()
	for range 3 {
		cycle()
	}
	// One that has said that it is done may still be on its last line.
	rig.Until(t, "as many goroutines run as before", func() bool { return goroutines() <= runs })
	if d := descriptors(); d != fds {
		t.Errorf("%d descriptors, before %d", d, fds)
	}
}

// TestClosedConn wants no call on a closed connection to open anything again.
func TestClosedConn(t *testing.T) {
	a, b := pair(t, policy.Nap, 64)
	a.Close()
	if err := a.ModifyTo(&ib.QPAttr{State: ib.QPErr}, 0); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Modify: %v", err)
	}
	if _, err := connOf(a).Bind(a.Node.Addr); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Bind: %v", err)
	}
	if n := len(Of(a.Node.Eng).sources); n != 0 {
		t.Errorf("%d sources are open", n)
	}
	before := a.Node.Counter("unknown_qp")
	b.Write(a, 64)
	rig.Until(t, "the packet to nobody is counted", func() bool { return a.Node.Counter("unknown_qp") > before })
}

// TestDestroyAndModifyUnderTraffic closes, stops and resets queue pairs while both sides post,
// poll, receive and run into time-outs. It has no result but the race detector's and the locks':
// everything ends. No thread goes on with a queue pair whose closing waits for it (CVE-2025-40061:
// rxe's do_task, out of its budget while it was drained, scheduled itself again).
func TestDestroyAndModifyUnderTraffic(t *testing.T) {
	a, b := newNode(t, policy.Nap), newNode(t, policy.Nap)
	var all sync.WaitGroup
	for lane := range 3 {
		all.Add(1)
		go func() {
			defer all.Done()
			for round := range 12 {
				x, y := newEndpoint(a, 8192), newEndpoint(b, 8192)
				connect(x, y)
				connect(y, x)
				done := make(chan struct{})
				var posters sync.WaitGroup
				for _, p := range [][2]*endpoint{{x, y}, {y, x}} {
					posters.Add(1)
					go func() {
						defer posters.Done()
						var wc [16]ib.WC
						for {
							select {
							case <-done:
								return
							default:
								p[0].Write(p[1], 8192)
								p[0].CQ.Poll(wc[:])
								p[0].Node.Eng.FirstLane().Poll()
								runtime.Gosched() // so that few cores do not make this long
							}
						}
					}()
				}
				for range 20 {
					a.Eng.FirstLane().Poll()
					runtime.Gosched()
				}
				switch (lane + round) % 3 {
				case 0:
					x.Close()
					y.ModifyTo(&ib.QPAttr{State: ib.QPErr}, 0)
				case 1:
					y.ModifyTo(&ib.QPAttr{State: ib.QPReset}, 0)
					x.ModifyTo(&ib.QPAttr{State: ib.QPErr}, 0)
				case 2:
					x.ModifyTo(&ib.QPAttr{State: ib.QPSQD, EnSQDAsyncNotify: true}, ib.QPEnSQDAsyncNotify)
					x.ModifyTo(&ib.QPAttr{State: ib.QPRTS}, 0)
				}
				close(done)
				posters.Wait()
				if (lane+round)%3 != 0 {
					x.Close()
				}
				y.Close()
			}
		}()
	}
	all.Wait()
	for _, n := range []*node{a, b} {
		rig.Until(t, "no source port is held", func() bool {
			Of(n.Eng).mu.Lock()
			defer Of(n.Eng).mu.Unlock()
			return len(Of(n.Eng).sources) == 0
		})
	}
}

// TestModifyIsCheckedAgain: between a caller's look at the state and its modification a packet may
// have ended the connection; going on would be no legal transition. A modification that check
// refuses is not done.
func TestModifyIsCheckedAgain(t *testing.T) {
	a, b := pair(t, policy.Nap, 64)
	a.Node.Keys.Deregister(a.Region)
	b.Write(a, 64) // a NAKs it and goes to ERR
	if wc := b.Await(); wc.Status != ib.WCRemAccessErr {
		t.Fatalf("%+v", wc)
	}
	refused := errors.New("not from there")
	var cur ib.QPState
	err := a.Modify(&ib.QPAttr{State: ib.QPSQD}, ib.QPStateAttr, a.Node.Addr, func(s ib.QPState) error { cur = s; return refused })
	if err != refused || cur != ib.QPErr {
		t.Errorf("%v in state %v", err, cur)
	}
	if err := a.ModifyTo(&ib.QPAttr{State: ib.QPReset}, 0); err != nil {
		t.Error(err)
	}
}
