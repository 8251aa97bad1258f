// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"testing"
	"time"

	"verbena/ib"
	"verbena/internal/monotime"
)

// forEver is a nap that ends only when somebody ends it.
const forEver = 1000 * monotime.Second

// poll polls as an application does that does nothing else.
func (n *node) poll() {
	for range eventPolls + 1 {
		n.eng.Poll()
	}
}

// lull polls until the goroutine leaves the sockets to the poller.
func (n *node) lull() {
	until(n.t, "the goroutine naps", func() bool {
		n.poll()
		n.eng.bg.poller.Wake()
		return n.eng.bg.napping.Load()
	})
}

// TestPollerGoesAway alternates between polling and waiting. The goroutine
// leaves the sockets to a poller for as long as it likes; a waiter must take
// them back at once, or this test never ends.
func TestPollerGoesAway(t *testing.T) {
	a, b := pair(t, forEver, 4096)
	for range 50 {
		for range 3 {
			a.write(b, 4096)
			if wc := pollBoth(a, b); wc.Status != ib.WCSuccess {
				t.Fatal(wc.Err())
			}
		}
		a.node.lull()
		a.write(b, 4096)
		b.node.eng.Wake() // b's application stops polling as well
		if wc := a.await(); wc.Status != ib.WCSuccess {
			t.Fatal(wc.Err())
		}
	}
}

// pollBoth polls for a completion at a, on both sides, as both applications
// would.
func pollBoth(a, b *endpoint) ib.WC {
	var wc [1]ib.WC
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if a.cq.Poll(wc[:]) == 1 {
			return wc[0]
		}
		for _, e := range []*endpoint{b, a} {
			e.node.eng.Poll()
			e.node.eng.Flush()
		}
	}
	a.node.t.Fatal("no completion came")
	return wc[0]
}

// TestPollerVanishes has one side poll for a while and never say that it
// stopped: its goroutine comes back by itself and serves the peer.
func TestPollerVanishes(t *testing.T) {
	a, b := pair(t, monotime.Millisecond, 4096)
	for range 50 {
		b.node.poll()
		a.write(b, 100)
		if wc := a.await(); wc.Status != ib.WCSuccess {
			t.Fatal(wc.Err())
		}
	}
}

// TestOneSidedWithoutCalls serves WRITEs of a peer while the target's
// application never calls in.
func TestOneSidedWithoutCalls(t *testing.T) {
	a, b := pair(t, forEver, 64<<10)
	copy(a.buf, "carried without the target's help")
	for range 32 {
		a.write(b, len(a.buf))
	}
	for range 32 {
		if wc := a.await(); wc.Status != ib.WCSuccess {
			t.Fatal(wc.Err())
		}
	}
	b.Close() // takes the lock under which they were written
	if string(a.buf) != string(b.buf) {
		t.Error("the bytes are not there")
	}
}

// TestDeferredAckIsSent takes a message by polling and then, instead of
// answering or polling on, waits, closes or modifies: the acknowledgement that
// was put off for the answer must go out all the same.
func TestDeferredAckIsSent(t *testing.T) {
	for name, stop := range map[string]func(*endpoint){
		"wait":   func(b *endpoint) { b.node.eng.Wake() },
		"close":  func(b *endpoint) { b.Close() },
		"modify": func(b *endpoint) { b.modify(&ib.QPAttr{State: ib.QPErr}, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t, forEver, 64)
			b.node.lull()
			b.recv()
			a.send(64)
			var wc [1]ib.WC
			until(t, "the message is there", func() bool { b.node.eng.Poll(); return b.cq.Poll(wc[:]) == 1 })
			stop(b)
			if wc := a.await(); wc.Status != ib.WCSuccess {
				t.Fatal(wc.Err())
			}
		})
	}
}

// TestAckIsNotDeferredWithoutNap takes a message by a poll while no goroutine
// naps, which would send what is put off: the poll itself sends it.
func TestAckIsNotDeferredWithoutNap(t *testing.T) {
	a, b := pair(t, forEver, 64)
	b.node.eng.bg.stop()
	b.recv()
	a.send(64)
	var wc [1]ib.WC
	until(t, "the message is there", func() bool { b.node.eng.Poll(); return b.cq.Poll(wc[:]) == 1 })
	if wc := a.await(); wc.Status != ib.WCSuccess {
		t.Fatal(wc.Err())
	}
}
