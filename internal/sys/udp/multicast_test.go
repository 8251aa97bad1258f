// SPDX-License-Identifier: BSD-2-Clause

package udp

import (
	"net"
	"net/netip"
	"testing"
)

func TestMulticastReachesEveryMember(t *testing.T) {
	lo := loopback(t)
	group := netip.MustParseAddr("239.255.47.91")
	first, err := Listen(group, 0, Options{Interface: lo})
	if err != nil {
		t.Skipf("lo takes no multicast: ip link set lo multicast on: %v", err)
	}
	defer first.Close()
	second, err := Listen(group, first.LocalAddr().Port(), Options{Interface: lo})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	tx := listen(t, netip.MustParseAddr("127.0.0.1"), Options{})
	writeAll(t, tx, Datagrams{Dst: first.LocalAddr(), Iov: [][]byte{[]byte("all")}})
	if tx.Counters().Unreachable > 0 {
		t.Skip("lo has no multicast route: ip route add 224.0.0.0/4 dev lo")
	}
	for _, s := range []*Socket{first, second} {
		if got, m := receive(t, s, 1); string(got[0]) != "all" || m.Dst != group {
			t.Errorf("received %q for %v", got[0], m.Dst)
		}
	}
}

// loopback returns the index of the loopback interface.
func loopback(t *testing.T) int {
	t.Helper()
	all, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		if i.Flags&net.FlagLoopback != 0 {
			return i.Index
		}
	}
	t.Skip("there is no loopback interface: ip link set lo up")
	return 0
}
