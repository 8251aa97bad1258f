// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"sync"
	"testing"

	"verbena/ib"
	"verbena/internal/engine"
	"verbena/internal/testkit/rig"
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
	port := r.opened[b.Addr]
	r.mu.Unlock()
	if k := port.TryPoll(false); k != engine.Busy {
		t.Errorf("TryPoll(false) is %d while a thread sends, want Busy", k)
	}
	done()
	<-returned
	if k := port.TryPoll(false); k == engine.Busy {
		t.Error("the port is busy when all is sent")
	}
}
