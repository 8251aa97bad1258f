// SPDX-License-Identifier: BSD-2-Clause

package rdma

import (
	"bytes"
	"testing"

	"verbena/ib"
	"verbena/internal/ntb/window"
	"verbena/internal/testkit/oracle"
)

// finished reports whether u's work is done.
func (u *user) finished() bool {
	if u.failed || u.q.State() == ib.QPErr {
		return u.sq.Len() == 0
	}
	return u.posted == len(u.plan) && u.settled == len(u.plan)
}

func (w *simWorld) finished() bool {
	for _, u := range w.users() {
		if !u.finished() {
			return false
		}
	}
	return true
}

// round connects all queue pairs, runs a plan on each, and holds memory against the
// oracle.
func (w *simWorld) round(errors bool) {
	w.faulty = errors // a refusal fails its queue pair, with all its posted work
	var checks []func()
	for _, u := range w.users() {
		u.makePlan(errors)
		checks = append(checks, u.guards())
	}
	for _, u := range w.users() {
		u.connect()
	}
	w.until("the plan is done", w.finished)
	for _, u := range w.users() {
		u.checkMemory()
	}
	for _, c := range checks {
		c()
	}
}

// checkMemory: the peer's memory is as the oracle leaves it after some number of u's work requests.
// These are those that are known to have succeeded at least, and of the next one any part.
func (u *user) checkMemory() {
	w, p := u.h.w, u.peer
	for k := u.succeeded; k <= u.posted; k++ {
		_, b, _ := u.consult(k)
		if k < u.posted {
			partly(u.plan[k], b, p.target.bytes)
		}
		if bytes.Equal(b, p.target.bytes) {
			return
		}
	}
	w.fatalf("%s: the memory is not what any number of work requests from %d to %d leaves", p.h.name, u.succeeded, u.posted)
}

// partly takes into b those bytes of a WRITE that have arrived in got.
func partly(x *oracle.WR, b, got []byte) {
	off := x.Addr - base
	if x.Opcode != ib.WRRDMAWrite && x.Opcode != ib.WRRDMAWriteWithImm || off+uint64(len(x.Data)) > areaBytes {
		return
	}
	for i, v := range x.Data {
		if got[off+uint64(i)] == v {
			b[off+uint64(i)] = v
		}
	}
}

// disconnect brings all queue pairs to RESET. Requests may be on their way still:
// the connections after it begin with other PSNs.
func (w *simWorld) disconnect() {
	w.epoch++
	for _, u := range w.users() {
		u.q.Modify(w.now, &ib.QPAttr{State: ib.QPReset}, ib.QPStateAttr)
		u.poll()
		u.recv = [2]completions{}
	}
}

// less is the number of runs, with -short the second.
func less(n, short int) int {
	if testing.Short() {
		return short
	}
	return n
}

func TestSimulation(t *testing.T) {
	play := func(seed uint64) uint64 {
		w := newSimWorld(t, seed, 1+int(seed%3))
		for i := range 3 {
			w.round(i == 1)
			w.disconnect()
			if i == 1 { // keys may be gone, receives failed: begin with new ones
				w = newSimWorld(t, seed+1e6, 2)
			}
		}
		return w.hash()
	}
	for seed := range uint64(less(60, 6)) {
		if a, b := play(seed), play(seed); seed < 5 && a != b {
			t.Fatalf("seed %d gives two runs", seed)
		}
	}
}

// crash ends a process and starts a new one, with the windows as they are or with new ones. Its
// last writes may be lost.
func (w *simWorld) crash(h *host) {
	h.wires = h.wires[:w.rnd.IntN(len(h.wires)+1)]
	old, o := h.users, h.other()
	outlive := w.rnd.IntN(2) == 0
	if !outlive {
		h.wires, o.wires = nil, nil
		o.node.Detach(w.now)
		h.own = window.New(make([]byte, h.own.Len()))
		if !w.near { // its users' registrations stay theirs
			o.own = window.New(make([]byte, o.own.Len()))
		}
	}
	h.start()
	if outlive && w.near { // nobody of an earlier life writes to its window
		h.attach()
		for h.node.Channel().Stale(w.now) {
			w.step()
		}
	}
	for _, u := range old {
		n := h.newUser(u.q.QPN)
		n.peer, u.peer.peer = u.peer, n
		n.outcomes = u.outcomes // the dead process's last writes may still arrive
	}
	switch {
	case !outlive:
		h.attach()
		o.attach()
	case !w.near:
		h.attach()
	}
}

// A fault at each step of a workload, from before the link is up until all is done: a crash of the
// peer, a reset, a lost back end, a stopped process. All posted work completes, and only requested
// bytes are written. With the link back the same queue pairs, reset, work as on the first day.
func TestFaultAtEveryStep(t *testing.T) {
	for _, c := range []struct {
		name  string
		what  befall
		seeds int // with odd ones both map each other's windows
		every int // only so many steps
	}{
		{"crash", crash, 10, 1},
		{"reset", reset, 6, 1},
		{"stand still", standStill, 2, 3}, // a hundred thousand steps each
	} {
		t.Run(c.name, func(t *testing.T) {
			runs := 0
			for seed := range less(c.seeds, 2) {
				step := 0
				for !faultAt(t, uint64(seed), step, c.what) {
					step += less(c.every, 20)
					runs++
				}
				if step < 30 {
					t.Errorf("seed %d: all is done after %d steps", seed, step)
				}
			}
			t.Logf("%d steps", runs)
		})
	}
}

// befall injects an event into one of the two.
type befall int

const (
	crash befall = iota
	reset
	standStill
)

// faultAt has something happen at a step of a workload, and reports whether all was done
// before.
func faultAt(t *testing.T, seed uint64, step int, what befall) (done bool) {
	w := newSimWorld(t, seed, 2)
	w.faulty = true
	for _, u := range w.users() {
		u.makePlan(false)
	}
	var checks []func()
	for _, u := range w.a.users {
		checks = append(checks, u.guards())
		u.connect()
	}
	for _, u := range w.b.users {
		u.connect()
	}
	for range step {
		w.step()
	}
	done = w.finished()
	hadLink := w.a.node.Up() && w.b.node.Up()
	crashed := false
	switch what {
	case crash:
		w.crash(w.b)
		crashed = true
		for _, u := range w.b.users { // nobody has connected to these
			was := bytes.Clone(u.all)
			checks = append(checks, func() {
				if !bytes.Equal(u.all, was) {
					w.fatalf("step %d: the memory of a new process was written", step)
				}
			})
		}
	case reset:
		w.b.node.Reset(w.now)
	case standStill:
		w.a.sleep = 1 << 17
		for range 1 << 17 {
			w.step()
		}
	}
	w.until("the survivor's work has ended", func() bool {
		for _, u := range w.a.users {
			if hadLink && u.q.State() != ib.QPErr && !(u.posted == len(u.plan) && u.finished()) {
				return false
			}
		}
		return w.a.node.Up() && w.b.node.Up()
	})
	if hadLink && !crashed {
		for _, u := range w.users() {
			u.checkMemory()
		}
	}
	for _, c := range checks {
		c()
	}
	w.heard() // meanwhile queue pairs that survived go on: they are reset in the middle of it
	w.disconnect()
	w.faulty = false
	w.round(false)
	return done
}
