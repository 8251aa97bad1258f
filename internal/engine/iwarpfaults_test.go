// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"testing"

	"verbena/ib"
	"verbena/internal/iwarp/mpa"
	"verbena/internal/iwarp/rdmap"
	"verbena/internal/monotime"
	"verbena/internal/queue"
	"verbena/internal/sys/faultcap"
)

// faultyPair returns two connected queue pairs, what the first of which sends is
// harmed.
func faultyPair(t *testing.T, f faultcap.Faults, rtr ...mpa.RTR) (a, b *endpoint) {
	t.Helper()
	n, m := startNode(t, defaultBackoff, Options{Solo: true, Faults: f}), newNode(t, defaultBackoff)
	n.account, m.account = NewAccount(rdmap.CounterNames()), NewAccount(rdmap.CounterNames())
	a, b = n.iwarpEndpoint(1<<20), m.iwarpEndpoint(1<<20)
	a.join(b, iwarpOptions{crc: true, rtr: mpa.RTRs(rtr...)})
	t.Cleanup(b.Close)
	t.Cleanup(a.Close)
	return a, b
}

// TestIWARPDelayed: all that is sent comes later, and is right.
func TestIWARPDelayed(t *testing.T) {
	const delay = 3 * monotime.Millisecond
	a, b := faultyPair(t, faultcap.Faults{Delay: delay, Jitter: delay, Seed: 3}, mpa.RTRRead)
	for _, size := range []int{0, 5, 70000, 1 << 20} {
		transfer(t, a, b, size, 1)
		transfer(t, b, a, size, 2)
	}
	begin := monotime.Now()
	a.request(queue.SendWQE{Opcode: ib.WRRDMARead, Length: 8, RKey: b.region.RKey()})
	a.want(ib.WCRDMARead, ib.WCSuccess)
	if took := monotime.Now().Sub(begin); took < delay {
		t.Errorf("a READ took %v, its request alone is delayed by %v", took, delay)
	}
	a.Disconnect()
	until(t, "both ends are done", func() bool { return a.ended.Load() == 1 && b.ended.Load() == 1 })
	if n := b.node.counter("rcvd_terminate"); n != 0 {
		t.Errorf("%d Terminates behind a delayed end", n)
	}
}

// TestIWARPCorrupted: a bit that changes behind the CRC is found, and ends the
// stream with a Terminate to who sent it. (Without a ready-to-receive message: were
// that one's length made longer, both ends would wait for the other.)
func TestIWARPCorrupted(t *testing.T) {
	// The seed spares the first writes, which are the set-up.
	a, b := faultyPair(t, faultcap.Faults{Corrupt: 0.2, Seed: 1})
	until(t, "a bit is found wrong", func() bool {
		if a.state() == ib.QPRTS {
			a.request(queue.SendWQE{Opcode: ib.WRRDMAWrite, Length: 3000, RKey: b.region.RKey()})
			a.await()
		}
		return a.ended.Load() == 1 && b.ended.Load() == 1
	})
	if found := b.node.counter("mpa_crc_errors"); found != 1 || a.node.counter("rcvd_terminate") != 1 {
		t.Errorf("%d CRC errors, %d Terminates", found, a.node.counter("rcvd_terminate"))
	}
}
