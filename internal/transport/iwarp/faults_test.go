// SPDX-License-Identifier: BSD-2-Clause

package iwarp

import (
	"testing"

	"verbena/ib"
	"verbena/internal/engine"
	"verbena/internal/engine/policy"
	"verbena/internal/iwarp/mpa"
	"verbena/internal/iwarp/rdmap"
	"verbena/internal/monotime"
	"verbena/internal/queue"
	"verbena/internal/sys/faultcap"
	"verbena/internal/testkit/rig"
)

// faultyPair returns two connected queue pairs. Faults are injected into the output of the first.
func faultyPair(t *testing.T, f faultcap.Faults, rtr ...mpa.RTR) (a, b *endpoint) {
	t.Helper()
	n, m := startNode(t, policy.Nap, engine.Options{Faults: f}), newNode(t, policy.Nap)
	n.Counters, m.Counters = engine.NewDeviceCounters(rdmap.CounterNames()), engine.NewDeviceCounters(rdmap.CounterNames())
	a, b = iwarpEndpoint(n, 1<<20), iwarpEndpoint(m, 1<<20)
	join(a, b, iwarpOptions{crc: true, rtr: mpa.RTRs(rtr...)})
	t.Cleanup(b.Close)
	t.Cleanup(a.Close)
	return a, b
}

// TestIWARPDelayed: all that is sent comes later, and is right.
func TestIWARPDelayed(t *testing.T) {
	const delay = 3 * monotime.Millisecond
	a, b := faultyPair(t, faultcap.Faults{Delay: delay, Jitter: delay, Seed: 3}, mpa.RTRRead)
	for _, size := range []int{0, 5, 70000, 1 << 20} {
		rig.Transfer(t, a, b, size, 1)
		rig.Transfer(t, b, a, size, 2)
	}
	begin := monotime.Now()
	a.Request(queue.SendWQE{Opcode: ib.WRRDMARead, Length: 8, RKey: b.Region.RKey()})
	a.Want(ib.WCRDMARead, ib.WCSuccess)
	if took := monotime.Now().Sub(begin); took < delay {
		t.Errorf("a READ took %v, its request alone is delayed by %v", took, delay)
	}
	connOf(a).Disconnect()
	rig.Until(t, "both ends are done", func() bool { return a.Ended.Load() == 1 && b.Ended.Load() == 1 })
	if n := b.Node.Counter("rcvd_terminate"); n != 0 {
		t.Errorf("%d Terminates behind a delayed end", n)
	}
}

// TestIWARPCorrupted: a bit that changes behind the CRC is found, and ends the stream with a
// Terminate to the sender. (Without a ready-to-receive message: were that one's length made longer,
// both ends would wait for the other.)
func TestIWARPCorrupted(t *testing.T) {
	// The seed spares the first writes, which are the set-up.
	a, b := faultyPair(t, faultcap.Faults{Corrupt: 0.2, Seed: 1})
	rig.Until(t, "a bit is found wrong", func() bool {
		if a.State() == ib.QPRTS {
			a.Request(queue.SendWQE{Opcode: ib.WRRDMAWrite, Length: 3000, RKey: b.Region.RKey()})
			a.Await()
		}
		return a.Ended.Load() == 1 && b.Ended.Load() == 1
	})
	if found := b.Node.Counter("mpa_crc_errors"); found != 1 || a.Node.Counter("rcvd_terminate") != 1 {
		t.Errorf("%d CRC errors, %d Terminates", found, a.Node.Counter("rcvd_terminate"))
	}
}
