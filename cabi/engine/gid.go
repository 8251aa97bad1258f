// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

/*
#include "engine.h"

typedef int vb_gid_table_of(const char *netdev, union ibv_gid *gids, int max);

static inline int call_gid_table_of(vb_gid_table_of *f, const char *netdev, union ibv_gid *gids,
				    int max)
{
	return f(netdev, gids, max);
}
*/
import "C"

import (
	"net/netip"
	"syscall"
	"unsafe"

	"verbena/ib"
	"verbena/internal/device"
)

// gidTableLen has the value of the port attribute gid_tbl_len.
const gidTableLen = 256

//export vb_use_gid_tables
func vb_use_gid_tables(table *C.vb_gid_table_of) {
	t := &gidTables{read: func(netdev string, to *[gidTableLen]ib.GID) int {
		return int(C.call_gid_table_of(table, terminated(netdev),
			(*C.union_ibv_gid)(unsafe.Pointer(to)), gidTableLen))
	}}
	device.ShareGIDTables(t.of)
}

// gidTables reads the tables of libibverbs. A connection that is made needs them several times, so
// it keeps the memory that C fills: 4 KiB of garbage a time are a page fault.
type gidTables struct {
	read func(netdev string, to *[gidTableLen]ib.GID) int // returns the length or -errno
	gids [gidTableLen]ib.GID
}

// of implements device.ShareGIDTables, which calls it by one goroutine at a time.
func (t *gidTables) of(netdev string) ([]netip.Addr, error) {
	n := t.read(netdev, &t.gids)
	if n < 0 {
		return nil, syscall.Errno(-n)
	}
	list := make([]netip.Addr, min(n, gidTableLen))
	for i := range list {
		if !t.gids[i].IsZero() {
			list[i] = t.gids[i].Addr()
		}
	}
	return list, nil
}
