// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"testing"

	"verbena/ib"
	"verbena/internal/engine"
	"verbena/internal/roce"
	"verbena/internal/roce/rc"
	"verbena/internal/testkit/rig"
)

// looped returns a queue pair that is connected with itself, whose completion queue has a Lane.
func looped(n *node, lane *engine.Lane) *endpoint {
	n.T.Helper()
	e := asOf(n, lane, 64, func(_ *endpoint, c roce.Config) roce.Machine { return rc.New(c) })
	n.T.Cleanup(e.Close)
	connect(e, e)
	if connOf(e).ring == nil {
		n.T.Skip("no ring within the process: the system has none")
	}
	return e
}

// A thread that is about to send or receive packets of one Lane does not hold up those of another.
func TestLanesDoNotWaitForEachOther(t *testing.T) {
	n := meet(t, how{})[0]
	n.Eng.Probe().StopBackground()
	other, lane := n.Eng.NewLane(), n.Eng.NewLane()
	held := looped(n, other)
	e := looped(n, lane)
	release := ringsOf(n).Hold()
	defer release()
	out := connOf(held).ring
	out.Lock()
	defer out.Unlock()

	e.Recv()
	e.Send(64)
	var wc [2]ib.WC
	got := 0
	rig.Until(t, "the message is received and acknowledged", func() bool {
		lane.Poll()
		lane.Flush()
		got += e.CQ.Poll(wc[got:])
		return got == 2
	})
	for _, w := range wc {
		if w.Status != ib.WCSuccess {
			t.Errorf("%v: %v", w.Opcode, w.Status)
		}
	}
}

// A thread that polls serves completion queues that nobody polls: their packets are received, and
// acknowledged.
func TestPollingThreadServesOtherLanes(t *testing.T) {
	n := meet(t, how{})[0]
	n.Eng.Probe().StopBackground()
	lane, other := n.Eng.NewLane(), n.Eng.NewLane()
	e := looped(n, other)
	e.Recv()
	e.Send(64)
	var wc [2]ib.WC
	got := 0
	rig.Until(t, "the message is received and acknowledged", func() bool {
		lane.Poll()
		lane.Flush()
		got += e.CQ.Poll(wc[got:])
		return got == 2
	})
}

// An acknowledgement that was delayed for a completion queue that nobody polls is sent by a thread
// that polls another one.
func TestPollingThreadSettlesOtherLanes(t *testing.T) {
	n := meet(t, how{})[0]
	probe := n.Eng.Probe()
	probe.StopBackground()
	lane, other := n.Eng.NewLane(), n.Eng.NewLane()
	e := looped(n, other)
	if !probe.Delay(&connOf(e).ack) {
		t.Fatal("no room for an acknowledgement")
	}
	rig.Until(t, "it is sent", func() bool {
		lane.Poll()
		return probe.Delayed() == 0
	})
}
