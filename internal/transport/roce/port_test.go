// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"sync"
	"testing"

	"verbena/ib"
	"verbena/internal/engine"
	"verbena/internal/testkit/rig"
	wire "verbena/internal/wire/roce"
)

// While a thread that polls answers messages that it has read, another thread reads further
// messages. A caller that needs all to be sent still finds the port busy.
func TestPortIsReadWhileAnotherThreadSends(t *testing.T) {
	a, b := newNode(t, forEver), newNode(t, forEver)
	b.Eng.Probe().StopBackground()
	a1, b1 := couple(t, a, b, 64)
	a2, b2 := couple(t, a, b, 64)
	b1.Recv()
	b2.Recv()
	sends, release, returned := make(chan struct{}), make(chan struct{}), make(chan struct{})
	done := sync.OnceFunc(func() { close(release) })
	defer done()
	b1.Lock()
	b1.SetAfter(func() { // the last step of a thread that sends
		close(sends)
		<-release
	})
	b1.Unlock()
	a1.Send(56)
	go func() {
		defer close(returned)
		for {
			select {
			case <-sends:
				return
			default:
				b.Eng.FirstLane().Poll()
			}
		}
	}()
	<-sends

	a2.Send(56)
	var wc [1]ib.WC
	rig.Until(t, "a message is read while another thread sends", func() bool {
		b.Eng.FirstLane().Poll()
		return b2.CQ.Poll(wc[:]) == 1
	})
	if wc[0].Status != ib.WCSuccess {
		t.Errorf("the message: %v", wc[0].Status)
	}
	r := Of(b.Eng)
	r.mu.Lock()
	port := engine.Input(r.opened[b.Addr])
	r.mu.Unlock()
	if len(r.framePorts) > 0 {
		port = r.framePorts[0]
	}
	if k := port.TryPoll(false); k != engine.Busy {
		t.Errorf("TryPoll(false) is %d while a thread sends, want Busy", k)
	}
	done()
	<-returned
	if k := port.TryPoll(false); k == engine.Busy {
		t.Error("the port is busy when all is sent")
	}
}

// A long message has the next waits sleep at once, many short ones that come together have not.
func TestOneLongMessageEndsSpins(t *testing.T) {
	a := newNode(t, forEver)
	c := connOf(newEndpoint(a, 64))
	const bytes, datagrams = 1040, 60
	for _, m := range []struct {
		name  string
		each  []wire.Opcode // that come, over and over
		read  int           // datagrams of a read
		sleep bool
	}{
		{"short", []wire.Opcode{wire.RCSendOnly}, datagrams, false},
		{"two packets each", []wire.Opcode{wire.RCSendFirst, wire.RCSendLast}, datagrams, false},
		{"a long one", []wire.Opcode{wire.RCSendMiddle}, datagrams, true},
		{"a long one, and acknowledgements", []wire.Opcode{wire.RCSendMiddle, wire.RCAcknowledge}, 2 * datagrams, true},
		{"a long one in short reads", []wire.Opcode{wire.RCSendMiddle}, datagrams / 4, false},
	} {
		c.Lock()
		for i := range 2 * datagrams {
			c.noteMessage(m.each[i%len(m.each)].Info(), bytes)
			if (i+1)%m.read == 0 {
				c.heard(0)
			}
		}
		c.Unlock()
		var s engine.Spin
		slept := false
		for !s.Wait(a.Eng, func() bool { return true }) {
			slept = true
		}
		if slept != m.sleep {
			t.Errorf("%s: the next waits sleep at once: %v, want %v", m.name, slept, m.sleep)
		}
	}
}
