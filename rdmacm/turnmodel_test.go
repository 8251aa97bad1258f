// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import "testing"

// turnWorld is a state of a model of kick, turn, take and run. A waiting thread and the manager's
// goroutine serve, another thread kicks. Work is an input of a protocol; to serve it makes a timer.
// A step is one access to memory that threads share, or one system call.
type turnWorld struct {
	kicker, thread, goroutine uint8 // their steps
	kicks                     uint8 // that are left
	work, due, rung           bool
	turning                   uint8
	locked                    bool  // serveMu
	now, timer                uint8 // timer is the time of the first one
	next, planned, until      uint8 // as of the manager; until is the goroutine's
}

const never = 9

// turnRules are broken one at a time.
type turnRules struct{ silent, unseen, late, noNext bool }

// serve is a round of the thread that has serveMu.
func (w *turnWorld) serve() {
	if w.timer <= w.now {
		w.timer = never
	}
	if w.work {
		w.work = false
		w.timer = min(w.timer, w.now+1)
	}
	w.next = w.timer
}

// step appends the states that follow w.
func (r turnRules) step(list []turnWorld, w turnWorld) []turnWorld {
	add := func(f func(n *turnWorld)) {
		n := w
		f(&n)
		list = append(list, n)
	}
	switch w.kicker {
	case 0:
		if w.kicks > 0 {
			add(func(n *turnWorld) { n.kicks--; n.work = true; n.kicker = 1 })
		}
	case 1:
		add(func(n *turnWorld) { n.due = true; n.kicker = 2 })
	case 2:
		add(func(n *turnWorld) { n.rung = n.rung || n.turning == 0; n.kicker = 0 })
	}
	switch w.thread { // take; it may never be called
	case 0:
		add(func(n *turnWorld) { n.turning++; n.thread = 1 })
	case 1:
		if !w.locked {
			add(func(n *turnWorld) { n.locked = true; n.thread = 2 })
		}
	case 2:
		add(func(n *turnWorld) { n.due = false; n.thread = 3 })
	case 3:
		add(func(n *turnWorld) { n.serve(); n.thread = 4 })
	case 4:
		add(func(n *turnWorld) { n.locked = false; n.thread = 5 })
	case 5:
		add(func(n *turnWorld) { n.turning--; n.thread = 6 })
	case 6:
		add(func(n *turnWorld) { n.rung = n.rung || n.due && !r.silent; n.thread = 7 })
	case 7:
		add(func(n *turnWorld) { n.rung = n.rung || n.next < n.planned && !r.late; n.thread = 8 })
	}
	switch w.goroutine { // run
	case 0:
		add(func(n *turnWorld) { n.turning++; n.goroutine = 1 })
	case 1:
		if !w.locked {
			add(func(n *turnWorld) { n.locked = true; n.goroutine = 2 })
		}
	case 2:
		add(func(n *turnWorld) { n.due = false; n.goroutine = 3 })
	case 3:
		add(func(n *turnWorld) { n.serve(); n.goroutine = 4 })
	case 4:
		add(func(n *turnWorld) { n.locked = false; n.goroutine = 5 })
	case 5:
		add(func(n *turnWorld) { n.turning--; n.goroutine = 6 })
	case 6:
		add(func(n *turnWorld) { n.until = n.next; n.goroutine = 7 })
	case 7:
		add(func(n *turnWorld) { n.planned = n.until; n.goroutine = 8 })
	case 8:
		add(func(n *turnWorld) {
			if n.goroutine = 9; n.due && !r.unseen {
				n.goroutine = 0
			}
		})
	case 9:
		add(func(n *turnWorld) {
			if n.goroutine = 10; n.next < n.until && !r.noNext {
				n.goroutine = 0
			}
		})
	case 10:
		if w.rung {
			add(func(n *turnWorld) { n.rung = false; n.goroutine = 0 })
		}
		if w.until < never {
			add(func(n *turnWorld) { n.now = n.until; n.goroutine = 0 })
		}
	}
	return list
}

// lost reports a state in which all threads have stopped, and work is left or a timer is missed.
func (r turnRules) lost() (states int, lost *turnWorld) {
	begin := turnWorld{kicks: 2, timer: never, next: never, planned: never}
	known := map[turnWorld]bool{begin: true}
	all := []turnWorld{begin}
	for i := 0; i < len(all); i++ {
		next := r.step(nil, all[i])
		if len(next) == 0 && (all[i].work || all[i].timer < all[i].until) && lost == nil {
			lost = &turnWorld{}
			*lost = all[i]
		}
		for _, n := range next {
			if !known[n] {
				known[n] = true
				all = append(all, n)
			}
		}
	}
	return len(all), lost
}

// TestNoTurnIsLost explores all interleavings: no input waits for ever, and the goroutine sleeps no
// longer than until the first timer. Without each of the rules it would.
func TestNoTurnIsLost(t *testing.T) {
	states, lost := turnRules{}.lost()
	t.Logf("%d states", states)
	if lost != nil {
		t.Errorf("in %+v something is lost", *lost)
	}
	for name, r := range map[string]turnRules{
		"take looks at due after turn":         {silent: true},
		"the goroutine looks at due":           {unseen: true},
		"take wakes the goroutine for a timer": {late: true},
		"the goroutine looks at next again":    {noNext: true},
	} {
		if _, lost := r.lost(); lost == nil {
			t.Errorf("nothing is lost without this rule: %s", name)
		}
	}
}
