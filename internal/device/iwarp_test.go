// SPDX-License-Identifier: BSD-2-Clause

package device

import (
	"slices"
	"strings"
	"testing"

	"verbena/ib"
)

func iwarpDevice() *Info {
	return &Info{Name: "iwarp_eth0", Kind: KindIWARP, NetDev: "eth0", GUID: 0x0211_22ff_fe33_4455}
}

// TestIWARPModify tries each pair of states, and each attribute where the state
// may change.
func TestIWARPModify(t *testing.T) {
	lawful := map[[2]ib.QPState]string{
		{ib.QPReset, ib.QPInit}: "QPAccessFlags QPPKeyIndex QPPort", {ib.QPInit, ib.QPInit}: "QPAccessFlags QPPKeyIndex QPPort",
		{ib.QPRTS, ib.QPRTS}: "QPAccessFlags", {ib.QPSQD, ib.QPRTS}: "QPAccessFlags", {ib.QPSQD, ib.QPSQD}: "QPAccessFlags",
		{ib.QPRTS, ib.QPSQD}: "QPEnSQDAsyncNotify",
	}
	d := iwarpDevice()
	for from := ib.QPReset; from <= ib.QPErr; from++ {
		for to := ib.QPReset; to <= ib.QPErr; to++ {
			takes, ok := lawful[[2]ib.QPState{from, to}]
			ok = ok || to == ib.QPReset || to == ib.QPErr
			try := func(mask ib.QPAttrMask) error {
				next, err := d.CheckModify(ib.QPTypeRC, from, goodAttr(from, to), mask|ib.QPStateAttr, &testLimits)
				if want := map[bool]ib.QPState{true: from, false: to}[err != nil]; next != want {
					t.Errorf("%v to %v: the state would be %v", from, to, next)
				}
				return err
			}
			if err := try(0); ok != (err == nil) {
				t.Errorf("%v to %v: %v", from, to, err)
			}
			if !ok {
				wantInvalid(t, try(0), "State", to.String())
				continue
			}
			for _, b := range maskBits {
				a := goodAttr(from, to)
				a.CurState = from
				_, err := d.CheckModify(ib.QPTypeRC, from, a, b.bit|ib.QPStateAttr, &testLimits)
				if want := b.bit == ib.QPCurState || slices.Contains(strings.Fields(takes), b.name); want != (err == nil) {
					t.Errorf("%v to %v with %s: %v", from, to, b.name, err)
				}
			}
		}
	}
	a := goodAttr(ib.QPSQD, ib.QPRTS)
	_, err := d.CheckModify(ib.QPTypeRC, ib.QPRTS, a, ib.QPStateAttr|ib.QPCurState, &testLimits)
	wantInvalid(t, err, "CurState", "SQD")
	_, err = d.CheckModify(ib.QPTypeRC, ib.QPReset, &ib.QPAttr{State: ib.QPInit, PortNum: 2}, ib.QPStateAttr|ib.QPPort, &testLimits)
	wantInvalid(t, err, "PortNum", "2")
}

// TestIWARPLooks has an adapter of iWARP look as siw does: an RNIC whose GID is
// its MAC address.
func TestIWARPLooks(t *testing.T) {
	d := iwarpDevice()
	if a := d.Attr(); a.NodeType != ib.NodeRNIC || a.AtomicCap != ib.AtomicNone || a.MaxAH != 0 || a.DeviceCapFlags&ib.CapXRC != 0 {
		t.Errorf("%+v", a)
	}
	gids, err := d.GIDs()
	if err != nil || len(gids) != 1 || gids[0].Index != 0 || gids[0].Type != ib.GIDTypeIB || gids[0].GID != (ib.GID{0, 0x11, 0x22, 0x33, 0x44, 0x55}) {
		t.Errorf("%+v, %v", gids, err)
	}
}

// TestKindsStandSideBySide has a device of each kind on every interface.
func TestKindsStandSideBySide(t *testing.T) {
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	roce, err := ParseSelection("").List()
	kinds := slices.DeleteFunc(slices.Clone(kinds), func(k Kind) bool { return k == KindNTB }) // on no interface
	if err != nil || len(roce) == 0 || len(all) != len(kinds)*len(roce) {
		t.Fatalf("%d devices of %d kinds, %d of RoCEv2: %v", len(all), len(kinds), len(roce), err)
	}
	for i, d := range all {
		r := roce[i%len(roce)]
		if d.NetDev != r.NetDev || d.GUID != r.GUID || d.Kind != kinds[i/len(roce)] || d.Name != string(d.Kind)+"_"+d.NetDev {
			t.Errorf("device %d: %+v beside %+v", i, d, r)
		}
		if found, err := Find(d.Name); err != nil || found != d {
			t.Errorf("%s: %+v, %v", d.Name, found, err)
		}
	}
}

// Over TRP every peer has atomics, as urdma's code has them.
func TestTRPHasAtomics(t *testing.T) {
	d := iwarpDevice()
	d.Kind, d.Name = KindTRP, "trp_eth0"
	if a := d.Attr(); a.NodeType != ib.NodeRNIC || a.AtomicCap != ib.AtomicHCA {
		t.Errorf("%+v", a)
	}
	_, err := d.CheckModify(ib.QPTypeRC, ib.QPInit, &ib.QPAttr{State: ib.QPRTR}, ib.QPStateAttr, &testLimits)
	wantInvalid(t, err, "State", "connection")
}
