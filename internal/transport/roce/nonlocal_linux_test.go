// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"net/netip"
	"os"
	"testing"

	"verbena/internal/testkit/netns"
)

// TestAddressesOfThisHost tells them from others, also where the system lets
// any address be bound.
func TestAddressesOfThisHost(t *testing.T) {
	net := netns.New(t)
	if net == nil {
		return
	}
	net.Up("lo")
	net.Add("lo", "192.0.2.1/32")
	n := meet(t, how{})[0]
	if !ringsOf(n).On() {
		t.Fatal("no rings on Linux")
	}
	for _, value := range []string{"0", "1"} {
		if err := os.WriteFile("/proc/sys/net/ipv4/ip_nonlocal_bind", []byte(value), 0); err != nil {
			t.Fatal(err)
		}
		for addr, want := range map[string]bool{"192.0.2.1": true, "127.0.0.1": true, n.Addr.String(): true, "192.0.2.2": false} {
			if got := Of(n.Eng).hosts(netip.MustParseAddr(addr)); got != want {
				t.Errorf("ip_nonlocal_bind %s: %s is of this host: %v", value, addr, got)
			}
		}
	}
}
