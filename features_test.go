// SPDX-License-Identifier: BSD-2-Clause

package verbena

import (
	"os"
	"slices"
	"strings"
	"testing"

	"verbena/ib"
	"verbena/internal/device"
)

// TestFeatureTable holds the README's rows of operations to what each type of queue pair takes.
func TestFeatureTable(t *testing.T) {
	columns := []struct {
		title string
		kind  device.Kind
		typ   ib.QPType
	}{
		{"RoCEv2 RC", device.KindRoCE, ib.QPTypeRC}, {"RoCEv2 XRC", device.KindRoCE, ib.QPTypeXRCSend},
		{"RoCEv2 UC", device.KindRoCE, ib.QPTypeUC}, {"RoCEv2 UD", device.KindRoCE, ib.QPTypeUD},
		{"iWARP over TCP", device.KindIWARP, ib.QPTypeRC}, {"iWARP over UDP (TRP, as urdma)", device.KindTRP, ib.QPTypeRC},
		{"NTB", device.KindNTB, ib.QPTypeRC},
	}
	rows := map[string][]ib.WROpcode{
		"SEND, with immediate":                       {ib.WRSend, ib.WRSendWithImm},
		"SEND with invalidate":                       {ib.WRSendWithInv},
		"RDMA WRITE, with immediate":                 {ib.WRRDMAWrite, ib.WRRDMAWriteWithImm},
		"RDMA READ":                                  {ib.WRRDMARead},
		"compare-and-swap, fetch-and-add":            {ib.WRAtomicCmpAndSwp, ib.WRAtomicFetchAndAdd},
		"ATOMIC WRITE, FLUSH":                        {ib.WRAtomicWrite, ib.WRFlush},
		"LOCAL_INV, REG_MR, BIND_MW (types 1 and 2)": {ib.WRLocalInv, ib.WRRegMR, ib.WRBindMW},
	}
	b, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(b), "\n## What is supported\n\n")
	head, table, _ := strings.Cut(table, "\n")
	cells := func(line string) []string {
		list := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range list {
			list[i] = strings.TrimSpace(list[i])
		}
		return list
	}
	titles := cells(strings.TrimPrefix(head, "|"))
	if len(titles) != len(columns) {
		t.Fatalf("columns: %q", titles)
	}
	for line := range strings.Lines(table) {
		row := cells(line)
		ops := rows[row[0]]
		if ops == nil {
			continue
		}
		delete(rows, row[0])
		for i, c := range columns {
			if titles[i] != c.title {
				t.Fatalf("the column %q is not %q", titles[i], c.title)
			}
			takes, _ := c.kind.Operations(c.typ)
			has := 0
			for _, op := range ops {
				if slices.Contains(takes, op) {
					has++
				}
			}
			var right bool
			switch said := row[i+1]; {
			case said == "–":
				right = has == 0
			case strings.HasSuffix(said, " only"):
				right = has == 1
			default:
				right = has == len(ops)
			}
			if !right {
				t.Errorf("%s of %s: the README says %q, and %d of %v are taken", row[0], c.title, row[i+1], has, ops)
			}
		}
	}
	for row := range rows {
		t.Errorf("the README has no row %q", row)
	}
}
