// SPDX-License-Identifier: BSD-2-Clause

package device

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"

	"verbena/ib"
)

// TestLinksAreDevices lists a device for each link that is configured.
func TestLinksAreDevices(t *testing.T) {
	if !slices.Contains(kinds, KindNTB) {
		t.Skip("this system has no NTB links: run on Linux")
	}
	if err := ConfigureLinks("10.99.0.1+10.99.0.2=s:192.0.2.1:7000,c:192.0.2.1:7000"); err != nil {
		t.Fatal(err)
	}
	defer ConfigureLinks("")
	a, err := Find("ntb0")
	if err != nil {
		t.Fatal(err)
	}
	b, err := Find("ntb1")
	if err != nil {
		t.Fatal(err)
	}
	if a.Kind != KindNTB || a.GUID == b.GUID || a.GUID != a.OnSide(0).GUID || a.GUID == a.OnSide(1).GUID || a.GUID>>56&3 != 2 {
		t.Errorf("GUIDs %v and %v", a.GUID, b.GUID)
	}
	if peer, ok := a.PeerPort(); !ok || peer.String() != "10.99.0.2" {
		t.Errorf("the other end has %v", peer)
	}
	if _, ok := b.PeerPort(); ok {
		t.Error("a link without addresses has one")
	}
	gids, err := a.GIDs()
	if err != nil || len(gids) != 2 || gids[0].GID[0] != 0xfe || gids[1].GID.Addr().String() != "10.99.0.1" || gids[1].Index != 1 || gids[0].Type != ib.GIDTypeIB {
		t.Errorf("GIDs %+v, %v", gids, err)
	}
	if p := a.PortAttr(); p.State != ib.PortDown || p.LinkLayer != ib.LinkEthernet {
		t.Errorf("port %+v", p)
	}
	if attr := a.Attr(); attr.DeviceCapFlags&(ib.CapXRC|ib.CapAtomicWrite) != 0 || attr.AtomicCap != ib.AtomicHCA {
		t.Errorf("%+v", attr)
	}
	err = ConfigureLinks("nonsense")
	if !errors.Is(err, syscall.EINVAL) {
		t.Errorf("nonsense: %v", err)
	}
	const names = LinksVariable + ": ntb: invalid configuration: "
	if err := ConfigureVariable("nonsense"); !strings.HasPrefix(err.Error(), names) {
		t.Errorf("nonsense: %v, want it to begin with %q", err, names)
	}
}

// TestCheckNTB lets queue pairs connect to the other end of the link, with or
// without a GRH.
func TestCheckNTB(t *testing.T) {
	d := Info{Kind: KindNTB}
	l := Limits{MaxRdAtomic: 16, PKeys: 1, Ports: 1, GIDs: addrsOf("fe80::1", "10.0.0.1"), Peers: addrsOf("fe80::2", "10.0.0.2")}
	mask := ib.QPStateAttr | ib.QPAV | ib.QPPathMTU | ib.QPDestQPN | ib.QPRQPSN | ib.QPMaxDestRdAtomic | ib.QPMinRNRTimer
	for _, c := range []struct {
		global bool
		index  uint8
		dst    string
		ok     bool
	}{
		{false, 0, "::", true}, {true, 0, "fe80::2", true}, {true, 1, "10.0.0.2", true}, {true, 0, "10.0.0.2", true},
		{true, 2, "10.0.0.2", false}, {true, 1, "10.0.0.1", false}, {true, 1, "10.0.0.3", false},
	} {
		a := ib.QPAttr{State: ib.QPRTR, PathMTU: ib.MTU1024, AH: ib.AHAttr{IsGlobal: c.global, GRH: ib.GRH{SGIDIndex: c.index, DGID: ib.GIDFromAddr(addrsOf(c.dst)[0])}}}
		next, err := d.CheckModify(ib.QPTypeRC, ib.QPInit, &a, mask, &l)
		if (err == nil) != c.ok || c.ok && next != ib.QPRTR {
			t.Errorf("%+v: %v, %v", c, next, err)
		}
	}
	unknown := l
	unknown.Peers = nil
	a := ib.QPAttr{State: ib.QPRTR, PathMTU: ib.MTU1024, AH: ib.AHAttr{IsGlobal: true, GRH: ib.GRH{DGID: ib.GIDFromAddr(addrsOf("10.0.0.3")[0])}}}
	if _, err := d.CheckModify(ib.QPTypeRC, ib.QPInit, &a, mask, &unknown); err != nil {
		t.Errorf("while nothing is known of the peer: %v", err)
	}
	if _, err := d.CheckModify(ib.QPTypeRC, ib.QPInit, &a, mask&^ib.QPDestQPN, &l); err == nil {
		t.Error("an attribute is missing, and it goes to RTR")
	}
}

// A shared-memory hub has one port for all processes of a side, in any spelling. It is active and
// leads to itself, too.
func TestMeetingPlace(t *testing.T) {
	t.Cleanup(func() { ConfigureLinks("") })
	at := t.TempDir() + "/place"
	port := func(links string, side int) Info {
		if err := ConfigureLinks(links); err != nil {
			t.Fatal(err)
		}
		list, count, err := Links(0, 2)
		if err != nil || len(list) != 1 || count != 1 {
			t.Fatal(list, count, err)
		}
		return list[0].OnSide(side)
	}
	said, found, other := port("10.99.0.1+10.99.0.2=shm:s:"+at, 0), port("shm:"+at, 0), port("10.99.0.1+10.99.0.2=shm:c:"+at, 1)
	if said.GUID != found.GUID || said.GUID == other.GUID || !said.Shared() {
		t.Errorf("GUIDs %v, %v and %v", said.GUID, found.GUID, other.GUID)
	}
	if p := said.PortAttr(); p.State != ib.PortActive || p.PhysState != 5 {
		t.Errorf("port %+v", p)
	}
	own := addrsOf("10.99.0.1", "10.99.0.2", "10.99.0.3")
	if !said.NamesPort(own[0]) || !said.NamesPort(own[1]) || said.NamesPort(own[2]) {
		t.Error("the addresses of its ports are others")
	}
	l := Limits{MaxRdAtomic: 16, PKeys: 1, Ports: 1, GIDs: own[:1], Peers: own[:2]}
	mask := ib.QPStateAttr | ib.QPAV | ib.QPPathMTU | ib.QPDestQPN | ib.QPRQPSN | ib.QPMaxDestRdAtomic | ib.QPMinRNRTimer
	for i, addr := range own {
		a := ib.QPAttr{State: ib.QPRTR, PathMTU: ib.MTU1024, AH: ib.AHAttr{IsGlobal: true, GRH: ib.GRH{DGID: ib.GIDFromAddr(addr)}}}
		if _, err := said.CheckModify(ib.QPTypeRC, ib.QPInit, &a, mask, &l); (err == nil) != (i < 2) {
			t.Errorf("to %v: %v", addr, err)
		}
	}
}

func addrsOf(list ...string) (out []netip.Addr) {
	for _, s := range list {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}
