// SPDX-License-Identifier: BSD-2-Clause

package perf

import (
	"testing"

	"verbena/internal/device"
	"verbena/internal/testkit/loopback"
)

// As many READs are outstanding as the peer's offer allows. One that does not tell allows 16.
func TestPeerBoundsReadsOutstanding(t *testing.T) {
	for offered, want := range map[uint8]uint8{0: 16, 4: 4, readDepth: device.MaxRdAtomic} {
		o, err := parse(t, "read", "bw", "-d "+loopback.Device(t))
		if err != nil {
			t.Fatal(err)
		}
		dev, err := o.dev.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer dev.Close()
		e, err := openEndpoint(o, dev)
		if err != nil {
			t.Fatal(err)
		}
		defer e.close()
		mine, err := e.createQPs()
		if err != nil {
			t.Fatal(err)
		}
		peer := e.offer(mine) // it connects to itself
		if peer.ReadDepth != device.MaxRdAtomic {
			t.Errorf("offers %d READs outstanding", peer.ReadDepth)
		}
		peer.ReadDepth = offered
		if err := e.connectQPs(mine, peer); err != nil {
			t.Fatal(err)
		}
		if a, _ := e.flows[0].qp.Query(); a.MaxRdAtomic != want || a.MaxDestRdAtomic != device.MaxRdAtomic {
			t.Errorf("the peer offers %d: %d READs outstanding, want %d; %d of its own", offered,
				a.MaxRdAtomic, want, a.MaxDestRdAtomic)
		}
	}
}
