// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"

	"verbena/ib"
	"verbena/internal/testkit/netns"
)

// The address of a connection goes away while messages are sent. They go on by the alternate path.
func TestPathMigrationWhenAddressGoes(t *testing.T) {
	n := netns.New(t)
	if n == nil {
		return
	}
	n.Add("lo", "192.0.2.1/32")
	n.Up("lo")
	a, b := newEnd(t, ib.QPTypeRC, 4096), newEnd(t, ib.QPTypeRC, 4096)
	route := func(addr string) ib.GRH {
		gid := ib.GIDFromAddr(netip.MustParseAddr(addr))
		for i := range 16 {
			if g, err := a.ctx.QueryGID(1, i); err == nil && g == gid {
				return ib.GRH{DGID: gid, SGIDIndex: uint8(i)}
			}
		}
		t.Fatalf("%s is not in the GID table", addr)
		return ib.GRH{}
	}
	primary := route("192.0.2.1")
	connect(t, a, b, ib.MTU1024, func(a *ib.QPAttr) {
		a.AH.GRH, a.Timeout, a.RetryCnt = primary, 10, 1
	})
	alternate := ib.QPAttr{AltPortNum: 1, AltTimeout: 14, PathMigState: ib.MigRearm,
		AltAH: ib.AHAttr{IsGlobal: true, PortNum: 1, GRH: route("127.0.0.1")}}
	for _, e := range []*end{a, b} {
		check(t, e.qp.Modify(&alternate, ib.QPAltPath|ib.QPPathMigState))
	}
	for mark := byte(1); mark < 4; mark++ {
		message(a, b, mark)
		message(b, a, mark)
	}
	lo, err := netlink.LinkByName("lo")
	check(t, err)
	addr, err := netlink.ParseAddr("192.0.2.1/32")
	check(t, err)
	check(t, netlink.AddrDel(lo, addr))
	message(a, b, 4)
	message(b, a, 5)
	a.wantMigration(ib.MigMigrated)
	b.wantMigration(ib.MigMigrated)
}
