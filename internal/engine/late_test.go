// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"runtime"
	"testing"

	"verbena/ib"
	"verbena/internal/monotime"
)

// A peer that waits for the acknowledgement before it goes on lets the grace
// run out every time. It gets its acknowledgements with the answers then.
func TestGraceThatRunsOutIsGivenUp(t *testing.T) {
	var l late
	for range maxExpired - 1 {
		l.expire()
	}
	l.waiting = true
	if l.posted(); !l.waiting {
		t.Error("given up before it ran out often enough: one delay may be chance")
	}
	l.expire()
	if l.posted(); l.waiting {
		t.Errorf("the acknowledgement still waits after the grace ran out %d times in a row", maxExpired)
	}
}

// What was given up is tried again, ever more rarely.
func TestGraceIsTriedAgainEverMoreRarely(t *testing.T) {
	var l late
	last := 0
	for last < maxTogether {
		for range maxExpired {
			l.expire()
		}
		if l.together <= last || l.together > maxTogether {
			t.Fatalf("given up for %d messages after %d", l.together, last)
		}
		last = l.together
	}
}

// TestAcknowledgementBeforeConnecting is what ib_write_bw -R does: its client,
// told by a message that the server is about to listen, stops polling and
// connects. The server listens when its message is acknowledged.
func TestAcknowledgementBeforeConnecting(t *testing.T) {
	turns := map[string]func(n *node, peer *node){
		"a MAD is sent": func(n, peer *node) {
			if err := n.eng.SendMAD(n.addr, peer.addr, make([]byte, madBytes)); err != nil {
				t.Error(err)
			}
		},
		"a queue pair is made":       func(n, _ *node) { n.endpoint(64).Close() },
		"a connection is thought of": func(n, _ *node) { n.eng.Settle() },
	}
	for name, turn := range turns {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t, forEver, 4096)
			b.recv()
			b.node.lull()
			a.send(56)
			var wc [1]ib.WC
			until(t, "the message is here", func() bool {
				b.node.eng.Poll()
				return b.cq.Poll(wc[:]) == 1
			})
			if wc[0].Status != ib.WCSuccess || b.node.eng.late.n.Load() != 1 {
				t.Fatalf("%v; %d acknowledgements put off, want one", wc[0].Status, b.node.eng.late.n.Load())
			}
			turn(b.node, a.node)
			if wc := a.await(); wc.Status != ib.WCSuccess || wc.Opcode != ib.WCSend {
				t.Errorf("%v of %v, want success of the SEND", wc.Status, wc.Opcode)
			}
		})
	}
}

// The last acknowledgement may wait for the write of another thread that pumps. It
// goes out before the queue pair's end, also of fio's receiver, which ends the
// connection with its last message.
func TestAcknowledgementBeforeTheEnd(t *testing.T) {
	ends := map[string]func(e *endpoint) error{
		"error":     func(e *endpoint) error { return e.modify(&ib.QPAttr{State: ib.QPErr}, 0) },
		"destroyed": func(e *endpoint) error { e.Close(); return nil },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t, forEver, 4096)
			b.recv()
			b.node.lull()
			b.mu.Lock()
			b.pumping = true // and writes
			b.mu.Unlock()
			a.send(56)
			var wc [1]ib.WC
			until(t, "the message is here", func() bool {
				b.node.eng.Poll()
				return b.cq.Poll(wc[:]) == 1
			})
			written := make(chan struct{})
			go func() {
				defer close(written)
				for range 10_000 { // longer than an end takes that does not wait
					runtime.Gosched()
				}
				b.mu.Lock()
				defer b.mu.Unlock()
				b.Conn.drain(monotime.Now())
				b.pumping = false
			}()
			if err := end(b); err != nil {
				t.Fatal(err)
			}
			<-written
			if wc := a.await(); wc.Status != ib.WCSuccess || wc.Opcode != ib.WCSend {
				t.Errorf("%v of %v, want success of the SEND", wc.Status, wc.Opcode)
			}
		})
	}
}
