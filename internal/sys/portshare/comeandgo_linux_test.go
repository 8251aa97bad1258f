// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"sync"
	"testing"
)

// Processes that come, leave in order and are killed, keepers among them, while
// others open sockets at the same addresses and listen: the port is never taken
// for any of them.
func TestComeAndGo(t *testing.T) { inBothPlaces(t, comeAndGo) }

func comeAndGo(t *testing.T) {
	n := newNetwork(t, 33)
	const workers, rounds = 5, 6
	var wg sync.WaitGroup
	for w := range workers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for r := range rounds {
				cycle(t, n, w, r)
			}
		}()
	}
	wg.Wait()
	// A process that comes after all of them finds nothing in the way.
	p := start(t, n.dir)
	p.must("", "socket %v", n.a)
	p.must("", "socket %v", n.b)
}

// cycle is one process's life.
func cycle(t *testing.T, n *network, worker, round int) {
	p := start(t, n.dir)
	addrs := []any{n.a, n.b}
	for i := range addrs {
		if got := p.ask("socket %v", addrs[(i+worker+round)%len(addrs)]); got != "" {
			t.Errorf("process %d.%d: %s", worker, round, got)
		}
	}
	if got := p.ask("listen key-%d-%d", worker, round); got != "" {
		t.Errorf("process %d.%d, which alone listens for it: %s", worker, round, got)
	}
	if (worker+round)%3 == 0 {
		if got := p.ask("close"); got != "" {
			t.Errorf("process %d.%d: %s", worker, round, got)
		}
	}
	p.kill()
}
