package share

import (
	"syscall"
	"testing"

	"verbena/internal/osio/udp"
)

// A member that a debugger holds must not keep the others from their datagrams.
func TestStoppedMemberHoldsUpNobody(t *testing.T) {
	n := newNetwork(t, 21)
	ps := startMany(t, n.dir, 3)
	keeper, others := keeperOf(t, ps)
	stopped, other := others[0], others[1]
	keeper.must("", "socket %v", n.a)
	stopped.must("", "socket %v", n.a)
	stopped.must("", "will 1 %v %v early", n.a, n.sender.LocalAddr())
	stopped.must("", "listen stopped")
	other.must("", "listen other")
	stopped.cmd.Process.Signal(syscall.SIGSTOP)
	// More than a unix socket queues, so that the keeper finds it full.
	for range 1500 {
		n.send(t, n.a, datagram(1, 0, "stopped"))
	}
	n.send(t, n.a, datagram(1, 0, "other"))
	other.must("other", "mad")
	stopped.cmd.Process.Signal(syscall.SIGCONT)
	stopped.must("stopped", "mad") // from its queue
	stopped.must("", "listen again")
	// It is as good as before: its socket, and what it listens for.
	n.flood(t, n.a, 100, stopped)
	stopped.must("0", "read %v 100", n.a)
	other.must("", "listen sync")
	if got := other.ask("listen stopped"); got == "" {
		t.Error("what a stopped member listens for is given away once it goes on")
	}
	if m, _ := n.sender.ReadBatch(udp.NewRxBatch()); m != 0 {
		t.Error("the will of a member that lives was sent")
	}
}
