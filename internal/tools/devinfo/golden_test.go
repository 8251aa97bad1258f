// SPDX-License-Identifier: BSD-2-Clause

package devinfo

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"verbena/ib"
)

// rxe0 has the attributes of rdma_rxe in Linux 6.12. The golden files are the output of
// ibverbs-utils 44 for that device.
func rxe0() *Info {
	gid := func(i int, a string) ib.GIDEntry {
		return ib.GIDEntry{Index: i, GID: ib.GIDFromAddr(netip.MustParseAddr(a)), Type: ib.GIDTypeRoCEv2}
	}
	const caps = ib.CapBadPKeyCntr | ib.CapBadQKeyCntr | 7<<4 | ib.CapPortActiveEvent | ib.CapSysImageGUID | ib.CapRCRNRNAKGen |
		ib.CapSRQResize | ib.CapMemWindow | ib.CapMemMgtExtensions | ib.CapMemWindowType2B |
		ib.CapFlushGlobal | ib.CapFlushPersistent | ib.CapAtomicWrite
	return &Info{
		Name: "rxe0", CompVectors: 1,
		Attr: ib.DeviceAttr{
			FWVer: "0.0.0", NodeType: ib.NodeCA, NodeGUID: 0x505400fffe770001, SysImageGUID: 0x505400fffe770001,
			MaxMRSize: 1<<64 - 1, PageSizeCap: 0xfffff000, VendorID: 0xffffff,
			MaxQP: 1048560, MaxQPWR: 1048576, DeviceCapFlags: caps, MaxSGE: 32, MaxSGERd: 32,
			MaxCQ: 1048576, MaxCQE: 32767, MaxMR: 524287, MaxPD: 1048576,
			MaxQPRdAtom: 128, MaxResRdAtom: 258048, MaxQPInitRdAtom: 128, AtomicCap: ib.AtomicHCA,
			MaxMW: 524287, MaxMcastGrp: 8192, MaxMcastQPAttach: 56, MaxTotalMcastQPAttach: 458752, MaxAH: 32767,
			MaxSRQ: 917503, MaxSRQWR: 1048576, MaxSRQSGE: 27, MaxPKeys: 64, LocalCAAckDelay: 15, PhysPortCnt: 1,
		},
		Ports: []Port{{Number: 1,
			Attr: ib.PortAttr{
				State: ib.PortActive, MaxMTU: ib.MTU4096, ActiveMTU: ib.MTU1024, GIDTblLen: 1024, PortCapFlags: 0x10000,
				MaxMsgSz: 1 << 31, PKeyTblLen: 1, MaxVLNum: 1, ActiveWidth: 1, ActiveSpeed: 1, PhysState: 5, LinkLayer: ib.LinkEthernet,
			},
			GIDs: []ib.GIDEntry{gid(0, "fe80::5054:ff:fe77:1"), gid(1, "::ffff:10.77.0.2"), gid(2, "fd77::2"), {Index: 3}},
		}},
	}
}

func wantGolden(t *testing.T, name, got string) {
	t.Helper()
	want, err := os.ReadFile(filepath.Join("testdata", name+".golden"))
	if err != nil {
		t.Fatal(err)
	}
	g, w := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range max(len(g), len(w)) {
		switch {
		case i >= len(g):
			t.Fatalf("%s line %d: missing %q", name, i+1, w[i])
		case i >= len(w):
			t.Fatalf("%s line %d: too much: %q", name, i+1, g[i])
		case g[i] != w[i]:
			t.Fatalf("%s line %d:\n got %q\nwant %q", name, i+1, g[i], w[i])
		}
	}
}

func TestLayoutIsThatOfIbvDevinfo(t *testing.T) {
	for name, verbose := range map[string]bool{"rxe0": false, "rxe0-verbose": true} {
		var b bytes.Buffer
		Print(&b, rxe0(), verbose)
		wantGolden(t, name, b.String())
	}
}

// The lines of tag matching are those of ibv_devinfo 65 for a device that has it.
func TestTagMatchingIsThatOfIbvDevinfo(t *testing.T) {
	d := rxe0()
	d.Attr.TM = ib.TMCaps{MaxRndvHdrSize: 64, MaxNumTags: 127, Flags: ib.TMCapRC, MaxOps: 32768, MaxSGE: 1}
	var b bytes.Buffer
	Print(&b, d, true)
	want := "\tmax_rndv_hdr_size:\t\t64\n\tmax_num_tags:\t\t\t127\n\tmax_ops:\t\t\t32768\n\tmax_sge:\t\t\t1\n\tflags:\n\t\t\t\t\tIBV_TM_CAP_RC\n"
	if !strings.Contains(b.String(), want) || strings.Contains(b.String(), "tag matching") {
		t.Errorf("%s", b.String())
	}
}

func TestListsAreThoseOfIbvDevices(t *testing.T) {
	list := []Entry{{Name: "rxe0", GUID: 0x505400fffe770001}, {Name: "siw0", GUID: 0x505400fffe770001}}
	var devices, names bytes.Buffer
	PrintDevices(&devices, list)
	PrintNames(&names, list)
	wantGolden(t, "devices", devices.String())
	wantGolden(t, "names", names.String())
}

func TestJSONSaysWhatTheTextSays(t *testing.T) {
	d := rxe0()
	d.Kind, d.Version = "roce", "0.1"
	var b bytes.Buffer
	if err := PrintJSON(&b, d); err != nil {
		t.Fatal(err)
	}
	var got jsonInfo
	if err := json.Unmarshal(b.Bytes(), &got); err != nil || strings.Count(b.String(), "\n") != 1 {
		t.Fatalf("%v: %s", err, b.String())
	}
	if got.Name != "rxe0" || got.Kind != "roce" || got.Version != "0.1" || got.NodeGUID != "5054:00ff:fe77:0001" ||
		got.Attr["max_qp"] != 1048560.0 || got.Attr["atomic_cap"] != "ATOMIC_HCA" {
		t.Errorf("device: %s", b.String())
	}
	p := got.Ports[0]
	if p.Port != 1 || p.State != "PORT_ACTIVE" || p.ActiveMTU != 1024 || p.PhysState != "LINK_UP" || len(p.GIDs) != 3 || p.GIDs[1].GID != "::ffff:10.77.0.2" {
		t.Errorf("port: %+v", p)
	}
	b.Reset()
	if err := PrintDevicesJSON(&b, []Entry{{Name: "roce_lo", Kind: "roce", NetDev: "lo", GUID: 1}}); err != nil {
		t.Fatal(err)
	}
	if got, want := b.String(), `{"name":"roce_lo","kind":"roce","netdev":"lo","node_guid":"0000:0000:0000:0001"}`+"\n"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestOneDeviceIsSingular(t *testing.T) {
	var b bytes.Buffer
	PrintNames(&b, []Entry{{Name: "roce_lo"}})
	if got, want := b.String(), "1 HCA found:\n\troce_lo\n\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestUnknownValuesAreNamedAsUnknown(t *testing.T) {
	d := rxe0()
	d.Ports[0].Attr.State = 9
	d.Ports[0].Attr.ActiveMTU = 0
	d.Ports[0].Attr.ActiveSpeed = 3
	var b bytes.Buffer
	Print(&b, d, true)
	for _, want := range []string{"invalid state (9)", "invalid MTU (0)", "invalid speed (3)"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q", want)
		}
	}
}
