// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"net/netip"
	"os"
	"testing"

	"verbena/internal/engine/policy"
)

// openFiles counts this process's descriptors.
func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestDescriptorsOfListenersAndQueuePairs has a process listen for the connection manager at
// many addresses, which costs none, and connect many queue pairs at one: that costs two.
func TestDescriptorsOfListenersAndQueuePairs(t *testing.T) {
	n := startNode(t, policy.Nap, how{Dir: t.TempDir(), NoLocal: true})
	before := openFiles(t)
	at := n.Addr.As4()
	for i := range byte(23) {
		if err := Of(n.Eng).Listen(netip.AddrFrom4([4]byte{127, at[1] ^ 0x40, at[2], 100 + i})); err != nil {
			t.Fatal(err)
		}
	}
	// This process may be the keeper, where no command is installed: that has one of each.
	if got := openFiles(t); got > before+23 {
		t.Errorf("%d descriptors with 23 addresses to listen at, %d before", got, before)
	}
	before = openFiles(t)
	for range 40 {
		connectAt(newEndpoint(n, 4096), 0x123456, n.Addr, 14, 7)
	}
	// The keeper here has the socket of the slot too, and the first box of its vault.
	if got := openFiles(t); got > before+4 {
		t.Errorf("%d descriptors with 40 queue pairs, %d before", got, before)
	}
}
