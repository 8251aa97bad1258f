// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"runtime"
	"testing"

	"verbena/ib"
	"verbena/internal/engine"
	"verbena/internal/engine/policy"
	"verbena/internal/monotime"
	"verbena/internal/testkit/rig"
)

// TestAcknowledgementBeforeConnecting does the same as ib_write_bw -R. A message announces to its
// client that the server is about to listen; the client stops polling and connects. The server
// listens when its message is acknowledged.
func TestAcknowledgementBeforeConnecting(t *testing.T) {
	turns := map[string]func(n *node, peer *node){
		"a MAD is sent": func(n, peer *node) {
			if err := Of(n.Eng).SendMAD(n.Addr, peer.Addr, make([]byte, madBytes)); err != nil {
				t.Error(err)
			}
		},
		"a queue pair is made":       func(n, _ *node) { newEndpoint(n, 64).Close() },
		"a connection is thought of": func(n, _ *node) { n.Eng.Settle() },
	}
	for name, turn := range turns {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t, forEver, 4096)
			b.Recv()
			lull(b.Node)
			a.Send(56)
			var wc [1]ib.WC
			rig.Until(t, "the message is here", func() bool {
				b.Node.Eng.FirstLane().Poll()
				return b.CQ.Poll(wc[:]) == 1
			})
			if wc[0].Status != ib.WCSuccess || b.Node.Eng.Probe().Delayed() != 1 {
				t.Fatalf("%v; %d acknowledgements put off, want one", wc[0].Status, b.Node.Eng.Probe().Delayed())
			}
			turn(b.Node, a.Node)
			if wc := a.Await(); wc.Status != ib.WCSuccess || wc.Opcode != ib.WCSend {
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
		"error":     func(e *endpoint) error { return e.ModifyTo(&ib.QPAttr{State: ib.QPErr}, 0) },
		"destroyed": func(e *endpoint) error { e.Close(); return nil },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t, forEver, 4096)
			b.Recv()
			lull(b.Node)
			b.Lock()
			b.Node.Eng.Probe().SetPumping(b.Conn, true) // and writes
			b.Unlock()
			a.Send(56)
			var wc [1]ib.WC
			rig.Until(t, "the message is here", func() bool {
				b.Node.Eng.FirstLane().Poll()
				return b.CQ.Poll(wc[:]) == 1
			})
			written := make(chan struct{})
			go func() {
				defer close(written)
				for range 10_000 { // longer than an end takes that does not wait
					runtime.Gosched()
				}
				b.Lock()
				defer b.Unlock()
				b.Flush(monotime.Now())
				b.Node.Eng.Probe().SetPumping(b.Conn, false)
			}()
			if err := end(b); err != nil {
				t.Fatal(err)
			}
			<-written
			if wc := a.Await(); wc.Status != ib.WCSuccess || wc.Opcode != ib.WCSend {
				t.Errorf("%v of %v, want success of the SEND", wc.Status, wc.Opcode)
			}
		})
	}
}

// A thread that sleeps acknowledges a message with its answer, in one write. If it waits for
// events, its peer sees the end of its SEND first, as with an adapter. If it sleeps between polls,
// both are one burst, where the acknowledgement is the last.
func TestAcknowledgementLeavesWithTheAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		read func(*engine.Engine)
		want []ib.WCOpcode
	}{
		"waits for events": {func(e *engine.Engine) { e.Collect(false) },
			[]ib.WCOpcode{ib.WCSend, ib.WCRecv}},
		"sleeps between polls": {func(e *engine.Engine) { e.BeginNap(); e.EndNap() },
			[]ib.WCOpcode{ib.WCRecv, ib.WCSend}},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t, forEver, 4096)
			a.Recv()
			b.Recv()
			lull(b.Node)
			a.Send(56)
			var wc [1]ib.WC
			rig.Until(t, "the message is here", func() bool {
				c.read(b.Node.Eng)
				return b.CQ.Poll(wc[:]) == 1
			})
			if n := b.Node.Eng.Probe().Delayed(); n != 1 {
				t.Fatalf("%d acknowledgements put off, want one", n)
			}
			b.Send(56)
			for _, want := range c.want {
				if wc := a.Await(); wc.Status != ib.WCSuccess || wc.Opcode != want {
					t.Errorf("%v of %v, want success of %v", wc.Status, wc.Opcode, want)
				}
			}
		})
	}
}

// An answer that waits for others, of an application that then does nothing more, is sent by the
// background goroutine.
func TestAnswerThatWaitsIsSent(t *testing.T) {
	t.Run("sockets", func(t *testing.T) {
		a, b := pair(t, policy.Nap, 4096)
		answerThatWaitsIsSent(t, a, b)
	})
	t.Run("ring", func(t *testing.T) {
		a, b := localPair(t, 4096)
		answerThatWaitsIsSent(t, a, b)
	})
}

func answerThatWaitsIsSent(t *testing.T, a, b *endpoint) {
	const messages = 3
	waited := false
	rig.Until(t, "an answer waits", func() bool { // a slow one does not
		a.Recv()
		for range messages {
			b.Recv()
			a.Send(56)
		}
		came := 0
		rig.Until(t, "the messages are here", func() bool {
			var wc [messages]ib.WC
			b.Node.Eng.Collect(false)
			came += b.CQ.Poll(wc[:])
			return came >= messages
		})
		b.Send(56)
		waited = waited || b.Node.Eng.Probe().AnswersWait()
		for wc := a.Await(); wc.Opcode != ib.WCRecv; wc = a.Await() {
			if wc.Status != ib.WCSuccess {
				t.Fatal(wc.Err())
			}
		}
		return waited
	})
}
