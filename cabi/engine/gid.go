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
	device.ShareGIDTables(func(netdev string) ([]netip.Addr, error) {
		var gids [gidTableLen]ib.GID
		to := (*C.union_ibv_gid)(unsafe.Pointer(&gids))
		n := C.call_gid_table_of(table, terminated(netdev), to, gidTableLen)
		if n < 0 {
			return nil, syscall.Errno(-n)
		}
		list := make([]netip.Addr, min(int(n), len(gids)))
		for i := range list {
			if !gids[i].IsZero() {
				list[i] = gids[i].Addr()
			}
		}
		return list, nil
	})
}
