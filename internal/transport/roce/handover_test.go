// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"testing"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/testkit/rig"
)

// forEver is a nap that ends only when somebody ends it.
const forEver = 1000 * monotime.Second

// poll polls as an application does that does nothing else.
func poll(n *node) {
	for range 2 {
		n.Eng.FirstLane().Poll()
	}
}

// lull polls until the goroutine leaves the sockets to the poller.
func lull(n *node) {
	rig.Until(n.T, "the goroutine naps", func() bool {
		poll(n)
		n.Eng.Poller().Wake()
		return n.Eng.Probe().Napping()
	})
}

// TestPollerGoesAway alternates between polling and waiting. The goroutine
// leaves the sockets to a poller for as long as it likes; a waiter must take
// them back at once, or this test never ends.
func TestPollerGoesAway(t *testing.T) {
	a, b := pair(t, forEver, 4096)
	for range 50 {
		for range 3 {
			a.Write(b, 4096)
			if wc := rig.PollBoth(a, b); wc.Status != ib.WCSuccess {
				t.Fatal(wc.Err())
			}
		}
		lull(a.Node)
		a.Write(b, 4096)
		b.Node.Eng.Wake() // b's application stops polling as well
		if wc := a.Await(); wc.Status != ib.WCSuccess {
			t.Fatal(wc.Err())
		}
	}
}

// TestPollerVanishes has one side poll for a while and never say that it
// stopped: its goroutine comes back by itself and serves the peer.
func TestPollerVanishes(t *testing.T) {
	a, b := pair(t, monotime.Millisecond, 4096)
	for range 50 {
		poll(b.Node)
		a.Write(b, 100)
		if wc := a.Await(); wc.Status != ib.WCSuccess {
			t.Fatal(wc.Err())
		}
	}
}

// TestOneSidedWithoutCalls serves WRITEs of a peer while the target's
// application never calls in.
func TestOneSidedWithoutCalls(t *testing.T) {
	a, b := pair(t, forEver, 64<<10)
	copy(a.Buf, "carried without the target's help")
	for range 32 {
		a.Write(b, len(a.Buf))
	}
	for range 32 {
		if wc := a.Await(); wc.Status != ib.WCSuccess {
			t.Fatal(wc.Err())
		}
	}
	b.Close() // takes the lock under which they were written
	if string(a.Buf) != string(b.Buf) {
		t.Error("the bytes are not there")
	}
}

// TestDeferredAckIsSent takes a message by polling and then, instead of
// answering or polling on, waits, closes or modifies: the acknowledgement that
// was put off for the answer must go out all the same.
func TestDeferredAckIsSent(t *testing.T) {
	for name, stop := range map[string]func(*endpoint){
		"wait":   func(b *endpoint) { b.Node.Eng.Wake() },
		"close":  func(b *endpoint) { b.Close() },
		"modify": func(b *endpoint) { b.ModifyTo(&ib.QPAttr{State: ib.QPErr}, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t, forEver, 64)
			lull(b.Node)
			b.Recv()
			a.Send(64)
			var wc [1]ib.WC
			rig.Until(t, "the message is there", func() bool { b.Node.Eng.FirstLane().Poll(); return b.CQ.Poll(wc[:]) == 1 })
			stop(b)
			if wc := a.Await(); wc.Status != ib.WCSuccess {
				t.Fatal(wc.Err())
			}
		})
	}
}

// TestAckIsNotDeferredWithoutNap takes a message by a poll while no goroutine naps, which would
// send delayed acknowledgements: the poll itself sends it.
func TestAckIsNotDeferredWithoutNap(t *testing.T) {
	a, b := pair(t, forEver, 64)
	b.Node.Eng.Probe().StopBackground()
	b.Recv()
	a.Send(64)
	var wc [1]ib.WC
	rig.Until(t, "the message is there", func() bool { b.Node.Eng.FirstLane().Poll(); return b.CQ.Poll(wc[:]) == 1 })
	if wc := a.Await(); wc.Status != ib.WCSuccess {
		t.Fatal(wc.Err())
	}
}
