// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"errors"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"verbena/ib"
	"verbena/internal/monotime"
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
		n := newNode(t, defaultBackoff)
		var eps []*endpoint
		for range 40 { // more than there are source ports
			eps = append(eps, n.endpoint(256))
		}
		for i := range eps {
			eps[i].connect(eps[i^1])
		}
		for i, e := range eps {
			e.write(eps[i^1], 256)
		}
		for i, e := range eps {
			if i%2 == 0 { // the others are closed with work outstanding, perhaps
				e.await()
			}
		}
		for _, e := range eps {
			e.Close()
		}
		if err := n.eng.Close(); err != nil {
			t.Fatal(err)
		}
		if n.eng.timers.deadline() != monotime.Never || len(n.eng.sources) != 0 {
			t.Errorf("left: timer %v, %d sources", n.eng.timers.deadline(), len(n.eng.sources))
		}
	}
	cycle() // what is opened once for all, such as the runtime's poller
	until(t, "none runs", func() bool { return goroutines() == 0 })
	runs, fds := goroutines(), descriptors()
	for range 3 {
		cycle()
	}
	// One that has said that it is done may still be on its last line.
	until(t, "as many goroutines run as before", func() bool { return goroutines() <= runs })
	if d := descriptors(); d != fds {
		t.Errorf("%d descriptors, before %d", d, fds)
	}
}

// TestClosedConn wants no call on a closed connection to open anything again.
func TestClosedConn(t *testing.T) {
	a, b := pair(t, defaultBackoff, 64)
	a.Close()
	if err := a.modify(&ib.QPAttr{State: ib.QPErr}, 0); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Modify: %v", err)
	}
	if _, err := a.Bind(a.node.addr); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Bind: %v", err)
	}
	if n := len(a.node.eng.sources); n != 0 {
		t.Errorf("%d sources are open", n)
	}
	before := a.node.counter("unknown_qp")
	b.write(a, 64)
	until(t, "the packet to nobody is counted", func() bool { return a.node.counter("unknown_qp") > before })
}

// TestDestroyAndModifyUnderTraffic closes, stops and resets queue pairs while
// both sides post, poll, receive and run into time-outs. It has no result but
// the race detector's and the locks': whatever happens, everything ends. Nobody
// goes on with a queue pair whose closing waits for it (CVE-2025-40061: rxe's
// do_task, out of its budget while it was drained, scheduled itself again).
func TestDestroyAndModifyUnderTraffic(t *testing.T) {
	a, b := newNode(t, defaultBackoff), newNode(t, defaultBackoff)
	var all sync.WaitGroup
	for lane := range 3 {
		all.Add(1)
		go func() {
			defer all.Done()
			for round := range 12 {
				x, y := a.endpoint(8192), b.endpoint(8192)
				x.connect(y)
				y.connect(x)
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
								p[0].write(p[1], 8192)
								p[0].cq.Poll(wc[:])
								p[0].node.eng.Poll()
								runtime.Gosched() // so that few cores do not make this long
							}
						}
					}()
				}
				for range 20 {
					a.eng.Poll()
					runtime.Gosched()
				}
				switch (lane + round) % 3 {
				case 0:
					x.Close()
					y.modify(&ib.QPAttr{State: ib.QPErr}, 0)
				case 1:
					y.modify(&ib.QPAttr{State: ib.QPReset}, 0)
					x.modify(&ib.QPAttr{State: ib.QPErr}, 0)
				case 2:
					x.modify(&ib.QPAttr{State: ib.QPSQD, EnSQDAsyncNotify: true}, ib.QPEnSQDAsyncNotify)
					x.modify(&ib.QPAttr{State: ib.QPRTS}, 0)
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
		until(t, "no source port is held", func() bool {
			n.eng.mu.Lock()
			defer n.eng.mu.Unlock()
			return len(n.eng.sources) == 0
		})
	}
}

// TestModifyIsCheckedAgain: between a caller's look at the state and its
// modification a packet may have ended the connection; going on would be no
// legal transition. What check refuses is not done.
func TestModifyIsCheckedAgain(t *testing.T) {
	a, b := pair(t, defaultBackoff, 64)
	a.node.keys.Deregister(a.region)
	b.write(a, 64) // a NAKs it and goes to ERR
	if wc := b.await(); wc.Status != ib.WCRemAccessErr {
		t.Fatalf("%+v", wc)
	}
	refused := errors.New("not from there")
	var cur ib.QPState
	err := a.Modify(&ib.QPAttr{State: ib.QPSQD}, ib.QPStateAttr, a.node.addr, func(s ib.QPState) error { cur = s; return refused })
	if err != refused || cur != ib.QPErr {
		t.Errorf("%v in state %v", err, cur)
	}
	if err := a.modify(&ib.QPAttr{State: ib.QPReset}, 0); err != nil {
		t.Error(err)
	}
}
