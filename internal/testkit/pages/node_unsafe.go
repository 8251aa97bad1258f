// SPDX-License-Identifier: BSD-2-Clause

//go:build linux

package pages

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Flags of get_mempolicy(2).
const (
	mpolNode = 1 // MPOL_F_NODE: the node instead of the policy
	mpolAddr = 2 // MPOL_F_ADDR: of an address
)

// Node returns the NUMA node of the memory at the beginning of b, which must have
// been touched.
func Node(b []byte) (node int, err error) {
	var n int32
	_, _, errno := unix.Syscall6(unix.SYS_GET_MEMPOLICY, uintptr(unsafe.Pointer(&n)), 0, 0,
		uintptr(unsafe.Pointer(unsafe.SliceData(b))), mpolNode|mpolAddr, 0)
	if errno != 0 {
		return 0, os.NewSyscallError("get_mempolicy", errno)
	}
	return int(n), nil
}
