// SPDX-License-Identifier: BSD-2-Clause

package device

import (
	"errors"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"

	"verbena/ib"
)

// The EUI-64 of a MAC address is RFC 4291's own example.
func TestGUIDFromMAC(t *testing.T) {
	mac := net.HardwareAddr{0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde}
	if g := guid(&net.Interface{Name: "x0", HardwareAddr: mac}); g != 0x365678fffe9abcde {
		t.Errorf("GUID %v", g)
	}
}

// TestGUIDWithoutMAC wants one that is the interface's own, stays the same, and
// is marked as locally administered.
func TestGUIDWithoutMAC(t *testing.T) {
	lo := guid(&net.Interface{Name: "lo", HardwareAddr: make(net.HardwareAddr, 6)})
	tun := guid(&net.Interface{Name: "tun0"})
	if lo == tun || lo != guid(&net.Interface{Name: "lo"}) {
		t.Errorf("lo %v, tun0 %v", lo, tun)
	}
	if lo>>56&3 != 2 || tun>>56&3 != 2 {
		t.Errorf("not marked as locally made: %v, %v", lo, tun)
	}
}

func TestListAndFind(t *testing.T) {
	list, err := ParseSelection("").List()
	if err != nil || len(list) == 0 {
		t.Fatalf("%v, %v", list, err)
	}
	for i, d := range list {
		if d.Name != "roce_"+d.NetDev || d.Kind != KindRoCE || d.GUID == 0 || d.Index == 0 {
			t.Errorf("device %+v", d)
		}
		if got, err := Find(d.Name); err != nil || got != d {
			t.Errorf("Find(%q) = %+v, %v", d.Name, got, err)
		}
		if f, _ := net.InterfaceByIndex(d.Index); f != nil && f.Flags&net.FlagLoopback != 0 && i != len(list)-1 {
			t.Errorf("loopback is number %d of %d: it comes last", i, len(list))
		}
	}
	if d, err := Find(""); err != nil || d.PortAttr().State != ib.PortActive {
		t.Errorf("the default device is %+v, %v", d, err)
	}
	_, err = Find("roce_nowhere0")
	if !errors.Is(err, syscall.ENODEV) || !strings.Contains(err.Error(), `"roce_nowhere0"`) || !strings.Contains(err.Error(), list[0].Name) {
		t.Errorf("an unknown device: %v", err)
	}
}

// TestGIDTable compares the table with the interface's addresses.
func TestGIDTable(t *testing.T) {
	list, err := ParseSelection("").List()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range list {
		gids, err := d.GIDs()
		if err != nil {
			t.Fatal(err)
		}
		addrs, err := d.Addrs()
		if err != nil || len(addrs) != len(gids) {
			t.Fatalf("%d addresses, %d GIDs: %v", len(addrs), len(gids), err)
		}
		rest := false
		for i, g := range gids {
			if g.Index != i || g.GID != ib.GIDFromAddr(addrs[i]) || g.Type != ib.GIDTypeRoCEv2 || g.NetDev != d.NetDev || g.GID.IsMulticast() {
				t.Errorf("%s entry %d: %+v", d.Name, i, g)
			}
			local := addrs[i].Is6() && addrs[i].IsLinkLocalUnicast()
			if local && (rest || addrs[i].Zone() != d.NetDev) {
				t.Errorf("%s entry %d: link-local %v comes first and with its zone", d.Name, i, addrs[i])
			}
			rest = rest || !local
		}
		f, err := net.InterfaceByName(d.NetDev)
		if err != nil {
			t.Fatal(err)
		}
		have, err := f.Addrs()
		if err != nil || len(have) != len(gids) {
			t.Errorf("%s: %d GIDs for the addresses %v (%v)", d.Name, len(gids), have, err)
		}
		for _, a := range have {
			ip := a.(*net.IPNet).IP.To16()
			if !slices.ContainsFunc(gids, func(g ib.GIDEntry) bool { return slices.Equal(g.GID[:], ip) }) {
				t.Errorf("%s has no GID for %v", d.Name, ip)
			}
		}
	}
}

// TestPortAttr wants the path MTU that leaves room for the longest headers.
func TestPortAttr(t *testing.T) {
	list, err := ParseSelection("").List()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range list {
		f, err := net.InterfaceByName(d.NetDev)
		if err != nil {
			t.Fatal(err)
		}
		a := d.PortAttr()
		if n := a.ActiveMTU.Bytes(); n+RoCEOverhead > f.MTU && a.ActiveMTU != ib.MTU256 || a.ActiveMTU < ib.MTU4096 && 2*n+RoCEOverhead <= f.MTU {
			t.Errorf("%s: active MTU %d on an interface of %d", d.Name, n, f.MTU)
		}
		if a.GIDTblLen != gidTableLen || a.PKeyTblLen != 1 || a.MaxMsgSz != 1<<31 || a.LinkLayer != ib.LinkEthernet {
			t.Errorf("%s: %+v", d.Name, a)
		}
	}
	gone := Info{Name: "roce_gone0", NetDev: "gone0"}
	if a := gone.PortAttr(); a.State != ib.PortDown || a.ActiveMTU != ib.MTU256 {
		t.Errorf("an interface that went away: %+v", a)
	}
	if _, err := gone.GIDs(); err == nil {
		t.Error("an interface that went away has GIDs")
	}
}

func TestDeviceAttr(t *testing.T) {
	d := Info{GUID: 5}
	a := d.Attr()
	if a.NodeGUID != 5 || a.SysImageGUID != 5 || a.MaxSGE != 32 || a.MaxQP != MaxQP || a.PhysPortCnt != 1 || a.AtomicCap != ib.AtomicHCA {
		t.Errorf("%+v", a)
	}
	if err := CheckRange("depth", 0, 1, 2); !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "depth: 0: must be 1 to 2") {
		t.Error(err)
	}
	if CheckRange("depth", 1, 1, 2) != nil || CheckRange("depth", 2, 1, 2) != nil {
		t.Error("the ends of a range are in it")
	}
}
