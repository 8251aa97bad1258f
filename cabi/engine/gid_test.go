// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

import (
	"net/netip"
	"runtime"
	"syscall"
	"testing"

	"verbena/ib"
)

func TestGIDTablesMakeLittleGarbage(t *testing.T) {
	want := netip.MustParseAddr("10.0.0.1")
	tables := &gidTables{read: func(_ string, to *[gidTableLen]ib.GID) int {
		to[1] = ib.GIDFromAddr(want)
		return 2
	}}
	const calls = 100
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range calls {
		if list, err := tables.of("lo"); err != nil || len(list) != 2 || list[0].IsValid() ||
			list[1] != want {
			t.Fatalf("%v, %v, want a free entry and %v", list, err, want)
		}
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / calls; each > 1024 {
		t.Errorf("a call allocates %d bytes, more than 1,024", each)
	}
}

func TestGIDTablesPassOnErrors(t *testing.T) {
	tables := &gidTables{read: func(string, *[gidTableLen]ib.GID) int {
		return -int(syscall.ENODEV)
	}}
	if _, err := tables.of("lo"); err != syscall.ENODEV {
		t.Errorf("%v, want %v", err, syscall.ENODEV)
	}
}
