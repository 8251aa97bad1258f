// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"verbena/ib"
	"verbena/internal/device"
)

// withoutC has the attributes that no structure of C has.
var withoutC = []string{"MaxInlineData", "MaxFastRegPages"}

// values returns the fields of a structure, in order and separated by spaces. By reflection no
// field is forgotten.
func values(of any) string {
	v := reflect.ValueOf(of)
	var list []string
	for i := range v.NumField() {
		if f := v.Field(i); slices.Contains(withoutC, v.Type().Field(i).Name) {
			continue
		} else if f.Kind() == reflect.Struct {
			list = append(list, values(f.Interface()))
		} else if f.Kind() == reflect.String {
			list = append(list, f.String())
		} else if f.CanInt() {
			list = append(list, strconv.FormatInt(f.Int(), 10))
		} else {
			list = append(list, strconv.FormatUint(f.Uint(), 10))
		}
	}
	return strings.Join(list, " ")
}

// describe prints a device as testdata/print_devices.c does.
func describe(t *testing.T, d *device.Info) string {
	t.Helper()
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	a, p, netdev, transport := d.Attr(), d.PortAttr(), d.Index, 0
	if d.Kind == device.KindNTB { // the program has it open
		p.State, p.PhysState, netdev = ib.PortActive, 5, 0
	}
	if a.NodeType == ib.NodeRNIC {
		transport = 1 // IBV_TRANSPORT_IWARP
	}
	line("%s guid %016x index %d transport %d", d.Name, uint64(d.GUID), d.Number(), transport)
	line("device %s", values(a))
	line("port %s", values(p))
	for i := range p.PKeyTblLen {
		line("pkey %d %#x", i, uint16(ib.DefaultPKey))
	}
	gids, err := d.GIDs()
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range gids {
		line("gid %d type %d if %d %x", g.Index, g.Type, netdev, g.GID[:])
	}
	return b.String()
}

// TestDevicesAreThoseOfGo compares the answers of C, which need no engine, with those of
// internal/device, for different selections of devices.
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
