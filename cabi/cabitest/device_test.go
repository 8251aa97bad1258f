// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"fmt"
	"strings"
	"testing"

	"verbena/ib"
	"verbena/internal/device"
)

// describe prints a device as testdata/print_devices.c does.
func describe(t *testing.T, d *device.Info) string {
	t.Helper()
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	a, p, netdev := d.Attr(), d.PortAttr(), d.Index
	if d.Kind == device.KindNTB { // the program has it open
		p.State, p.PhysState, netdev = ib.PortActive, 5, 0
	}
	line("%s guid %016x index %d node %d", d.Name, uint64(d.GUID), d.Number(), a.NodeType)
	line("fw %s guid %016x sys %016x", a.FWVer, uint64(a.NodeGUID), uint64(a.SysImageGUID))
	line("mr %d pages %d vendor %d part %d hw %d", a.MaxMRSize, a.PageSizeCap, a.VendorID, a.VendorPartID, a.HWVer)
	line("qp %d wr %d caps %d %d sge %d %d cq %d cqe %d mr %d pd %d", a.MaxQP, a.MaxQPWR, uint32(a.DeviceCapFlags), uint64(a.DeviceCapFlags),
		a.MaxSGE, a.MaxSGERd, a.MaxCQ, a.MaxCQE, a.MaxMR, a.MaxPD)
	line("rd %d %d %d %d %d atomic %d ee %d rdd %d mw %d raw %d %d", a.MaxQPRdAtom, a.MaxEERdAtom, a.MaxResRdAtom, a.MaxQPInitRdAtom,
		a.MaxEEInitRdAtom, a.AtomicCap, a.MaxEE, a.MaxRDD, a.MaxMW, a.MaxRawIPv6QP, a.MaxRawEthyQP)
	line("mcast %d %d %d ah %d fmr %d %d srq %d %d %d pkeys %d delay %d ports %d", a.MaxMcastGrp, a.MaxMcastQPAttach, a.MaxTotalMcastQPAttach,
		a.MaxAH, a.MaxFMR, a.MaxMapPerFMR, a.MaxSRQ, a.MaxSRQWR, a.MaxSRQSGE, a.MaxPKeys, a.LocalCAAckDelay, a.PhysPortCnt)
	line("state %d mtu %d %d gids %d caps %d msg %d bad %d %d pkeys %d lid %d %d lmc %d", uint8(p.State), uint8(p.MaxMTU), uint8(p.ActiveMTU),
		p.GIDTblLen, p.PortCapFlags, p.MaxMsgSz, p.BadPKeyCntr, p.QKeyViolCntr, p.PKeyTblLen, p.LID, p.SMLID, p.LMC)
	line("vl %d sl %d timeout %d init %d width %d speed %d phys %d link %d", p.MaxVLNum, p.SMSL, p.SubnetTimeout, p.InitTypeReply,
		p.ActiveWidth, p.ActiveSpeed, p.PhysState, uint8(p.LinkLayer))
	gids, err := d.GIDs()
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range gids {
		line("gid %d type %d if %d %x", g.Index, g.Type, netdev, g.GID[:])
	}
	return b.String()
}

// TestDevicesAreThoseOfGo compares the answers of C, which come without the
// engine, with internal/device's, for whatever devices a user asks for.
func TestDevicesAreThoseOfGo(t *testing.T) {
	for _, selected := range []string{"", ",", "roce,iwarp,trp", "trp,iwarp", "iwarp_lo,roce", "iwarp,iwarp_lo,,trp_lo"} {
		t.Run(selected, func(t *testing.T) { compareDevices(t, selected) })
	}
	if got := output(t, "print_devices", "VERBENA_DEVICES=nonsense,roce_nowhere,ro"); got != "" {
		t.Errorf("devices of no kind: %q", got)
	}
}

func compareDevices(t *testing.T, selected string) {
	list, err := device.ParseSelection(selected).List()
	if err != nil || len(list) == 0 {
		t.Fatal(list, err)
	}
	var want strings.Builder
	for i := range list {
		want.WriteString(describe(t, &list[i]))
	}
	got := strings.Split(output(t, "print_devices", "VERBENA_DEVICES="+selected), "\n")
	for i, w := range strings.Split(want.String(), "\n") {
		if i >= len(got) || got[i] != w {
			t.Fatalf("line %d: C says\n%q, Go\n%q", i+1, append(got, "nothing")[min(i, len(got))], w)
		}
	}
	if n := strings.Count(want.String(), "\n"); n != len(got)-1 {
		t.Errorf("C prints %d lines, Go %d", len(got)-1, n)
	}
}
