// SPDX-License-Identifier: BSD-2-Clause

package device

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"verbena/ib"
)

// addrs reads "a b - c": a dash is a free entry.
func addrs(s string) (out []netip.Addr) {
	for _, f := range strings.Fields(s) {
		if f == "-" {
			out = append(out, netip.Addr{})
			continue
		}
		out = append(out, netip.MustParseAddr("192.0.2."+f))
	}
	return out
}

// An address keeps its index for as long as it lives.
func TestGIDTableKeepsIndices(t *testing.T) {
	for _, c := range []struct{ what, before, now, after string }{
		{"the first look", "", "3 1 2", "3 1 2"},
		{"nothing new", "3 1 2", "1 2 3", "3 1 2"},
		{"the first leaves", "1 2 3", "2 3", "- 2 3"},
		{"the last leaves", "1 2 3", "1 2", "1 2"},
		{"the last leaves, behind a hole", "1 - 3", "1", "1"},
		{"one comes", "1 2", "9 1 2", "1 2 9"},
		{"one comes into a hole", "- 2 3", "2 3 9", "9 2 3"},
		{"it comes back", "- 2 3", "1 2 3", "1 2 3"},
		{"two come, one hole", "1 - 3", "8 1 3 9", "1 8 3 9"},
		{"one takes another's place between two looks", "1 2 3", "1 3 9", "1 9 3"},
		{"all leave", "1 2", "", ""},
		{"listed twice, with two prefixes", "1", "1 1 2 2", "1 2"},
	} {
		if got := gidTable(addrs(c.before)).update(addrs(c.now)); !slices.Equal(got, addrs(c.after)) {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}

// Beyond its length a table takes no more until an entry is free.
func TestGIDTableIsFull(t *testing.T) {
	var all []netip.Addr
	for i := range gidTableLen + 2 {
		all = append(all, netip.MustParseAddr(fmt.Sprintf("2001:db8::%x", i+1)))
	}
	full := gidTable(nil).update(all)
	if len(full) != gidTableLen {
		t.Fatalf("%d entries", len(full))
	}
	next := full.update(all[1:])
	if len(next) != gidTableLen || next[0] != all[gidTableLen] || next[1] != all[1] {
		t.Errorf("after the first address went: %d entries, the first two %v", len(next), next[:2])
	}
}

// An empty entry of the table is no source of an address vector.
func TestAHRefusesAFreeEntry(t *testing.T) {
	l := Limits{Ports: 1, GIDs: addrs("- 2")}
	a := ib.AHAttr{IsGlobal: true, PortNum: 1, GRH: ib.GRH{DGID: ib.GIDFromAddr(netip.MustParseAddr("192.0.2.1"))}}
	if err := CheckAH(&a, &l); err == nil || !strings.Contains(err.Error(), "SGIDIndex") {
		t.Errorf("a free entry: %v", err)
	}
	a.GRH.SGIDIndex = 1
	if err := CheckAH(&a, &l); err != nil {
		t.Error(err)
	}
}
