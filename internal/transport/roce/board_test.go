// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"testing"

	"verbena/internal/engine/policy"
	"verbena/internal/testkit/rig"
)

// look polls as a C program does.
func look(n *node) bool {
	n.Eng.FirstLane().PollFor(1)
	n.Eng.UpdateBoard()
	return n.Eng.Board().Suffices()
}

// A thread may poll the board alone if all packets come by rings that the board shows, and nothing
// is put off.
func TestPatience(t *testing.T) {
	_, b := localPair(t, 64)
	rig.Until(t, "rings are all there is to look at", func() bool { return look(b.Node) })
	probe := b.Node.Eng.Probe()
	rig.Until(t, "a look finds an acknowledgement put off", func() bool {
		if !probe.Delay(&connOf(b).ack) {
			return false
		}
		suffices := look(b.Node)
		if probe.Delayed() == 0 { // the background goroutine has sent it
			return false
		}
		if suffices {
			t.Error("the board suffices while an acknowledgement waits for the next poll")
		}
		return true
	})

	self := newEndpoint(b.Node, 64) // its ring is in memory of Go's, which is not shown
	connect(self, self)
	defer self.Close()
	if connOf(self).ring == nil {
		t.Fatal("no ring to itself")
	}
	if look(b.Node) {
		t.Error("the board suffices with a ring that is not shown")
	}
}

// Without rings there are sockets to look at.
func TestNoPatienceWithoutRings(t *testing.T) {
	a, b := pair(t, policy.Nap, 64)
	a.Recv()
	b.Send(8)
	rig.Until(t, "the message is there", func() bool {
		if look(a.Node) {
			t.Fatal("the board suffices")
		}
		return a.CQ.Len() > 0
	})
}
