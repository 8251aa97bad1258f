// SPDX-License-Identifier: BSD-2-Clause

package engine

import "testing"

// look is what a program does that polls by itself.
func (n *node) look() bool {
	n.eng.PollFor(1)
	n.eng.ShowPatience()
	return n.eng.Board().Patient()
}

// Who looks at the board may leave it at that when all that comes, comes by rings
// that are shown, and nothing is put off.
func TestPatience(t *testing.T) {
	_, b := localPair(t, 64)
	until(t, "rings are all there is to look at", b.node.look)
	late := &b.node.eng.late
	until(t, "a look finds an acknowledgement put off", func() bool {
		if !late.add(b.roce) {
			return false
		}
		patient := b.node.look()
		if late.n.Load() == 0 { // the background goroutine has sent it
			return false
		}
		if patient {
			t.Error("patient while an acknowledgement waits for the next poll")
		}
		return true
	})

	self := b.node.endpoint(64) // its ring is in memory of Go's, which is not shown
	self.connect(self)
	defer self.Close()
	if self.roce.ring == nil {
		t.Fatal("no ring to itself")
	}
	if b.node.look() {
		t.Error("patient with a ring that is not shown")
	}
}

// Without rings there are sockets to look at.
func TestNoPatienceWithoutRings(t *testing.T) {
	a, b := pair(t, defaultBackoff, 64)
	a.recv()
	b.send(8)
	until(t, "the message is there", func() bool {
		if a.node.look() {
			t.Fatal("patient")
		}
		return a.cq.Len() > 0
	})
}

// A poll that stands for many passes what any of them would have passed.
func TestPassed(t *testing.T) {
	for _, step := range []uint64{1, 3, 16, 17, 64, 100} {
		times, last := 0, uint64(0)
		for range 100 {
			if last += step; passed(last, step, 64) {
				times++
			}
		}
		if want := min(100*step/64, 100); uint64(times) != want {
			t.Errorf("100 polls for %d each look %d times, want %d", step, times, want)
		}
	}
}
