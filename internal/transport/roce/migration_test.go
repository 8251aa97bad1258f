// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"net/netip"
	"testing"

	"verbena/ib"
	"verbena/internal/engine/policy"
	"verbena/internal/testkit/rig"
)

// A path that was prepared for a modification that is refused is no alternate path: the one loaded
// before stays, and the queue pair changes to it.
func TestAlternatePathOfRefusedModification(t *testing.T) {
	a, b := pair(t, policy.Nap, 4096)
	const mask = ib.QPAltPath | ib.QPPathMigState
	prepare := func(e *endpoint, to netip.Addr) *ib.QPAttr {
		attr := &ib.QPAttr{PathMigState: ib.MigRearm, AltAH: ib.AHAttr{IsGlobal: true, GRH: ib.GRH{DGID: ib.GIDFromAddr(to)}}}
		if err := connOf(e).LoadAlternate(attr, mask, e.Node.Addr); err != nil {
			t.Fatal(err)
		}
		return attr
	}
	modify := func(e *endpoint, attr *ib.QPAttr, mask ib.QPAttrMask) {
		t.Helper()
		if err := e.Modify(attr, mask, e.Node.Addr, rig.AnyState); err != nil {
			t.Fatal(err)
		}
	}
	peer := func() netip.Addr {
		a.Lock()
		defer a.Unlock()
		return connOf(a).Route().Peer.Addr()
	}
	loaded, refused := rig.NewAddr(), rig.NewAddr()
	modify(a, prepare(a, loaded), mask)
	modify(b, prepare(b, loaded), mask)
	prepare(a, refused)
	a.Post(b, ib.WRRDMAWrite, 10)
	a.Want(ib.WCRDMAWrite, ib.WCSuccess)
	if got := peer(); got != b.Node.Addr {
		t.Errorf("the route is to %v, want %v", got, b.Node.Addr)
	}
	modify(a, &ib.QPAttr{PathMigState: ib.MigMigrated}, ib.QPPathMigState)
	if got := peer(); got != loaded {
		t.Errorf("the route is to %v, want %v", got, loaded)
	}
}
