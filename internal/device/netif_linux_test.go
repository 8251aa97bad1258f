// SPDX-License-Identifier: BSD-2-Clause

package device

import (
	"net/netip"
	"slices"
	"testing"

	"verbena/ib"
	"verbena/internal/testkit/netns"
)

// TestInterfacesAreKept changes an interface whose description is kept: the next look sees each
// change.
func TestInterfacesAreKept(t *testing.T) {
	n := netns.New(t)
	if n == nil {
		return
	}
	n.AddWire("d0", "d1")
	defer KeepInterfaces()()
	d := Info{Name: "roce_d0", Kind: KindRoCE, NetDev: "d0"}
	want := func(what string, port ib.PortAttr, addrs ...string) {
		t.Helper()
		for range 2 { // asked for, and kept
			if p := d.PortAttr(); p.State != port.State || p.ActiveMTU != port.ActiveMTU {
				t.Fatalf("%s: the port is %v with MTU %v", what, p.State, p.ActiveMTU)
			}
			got, err := d.Addrs()
			if err != nil {
				t.Fatal(err)
			}
			for i, a := range got {
				got[i] = a.WithZone("")
			}
			var all []netip.Addr
			for _, a := range addrs {
				all = append(all, netip.MustParseAddr(a))
			}
			if !slices.Equal(got, all) {
				t.Fatalf("%s: the addresses are %v", what, got)
			}
		}
	}
	down := ib.PortAttr{State: ib.PortDown, ActiveMTU: ib.MTU1024}
	want("at first", down)
	n.Add("d0", "192.0.2.1/24")
	want("an address", down, "192.0.2.1")
	n.Add("d0", "192.0.2.2/24")
	want("another", down, "192.0.2.1", "192.0.2.2")
	if err := n.LinkSetMTU(n.Link("d0"), 9000); err != nil {
		t.Fatal(err)
	}
	want("a longer MTU", ib.PortAttr{State: ib.PortDown, ActiveMTU: ib.MTU4096}, "192.0.2.1", "192.0.2.2")
	if _, kept := netifs.of["d0"]; !kept {
		t.Error("nothing is kept")
	}
}

// A connection takes several looks at its port and addresses.
func TestALookAllocatesLittle(t *testing.T) {
	defer KeepInterfaces()()
	d := Info{Name: "roce_lo", Kind: KindRoCE, NetDev: "lo"}
	if n := testing.AllocsPerRun(100, func() { d.PortAttr(); d.AddrTable() }); n > 8 {
		t.Errorf("%v allocations: the system is asked for the interface", n) // hundreds, then
	}
}
