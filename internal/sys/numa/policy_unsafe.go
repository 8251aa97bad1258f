// SPDX-License-Identifier: BSD-2-Clause

//go:build linux

package numa

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	mpolBind  = 2 // linux/mempolicy.h
	maskWords = 16
	wordBits  = 64
)

// Place has the pages of b, whole pages that nobody has touched, come from the
// memory of a node.
//
// Errors: ErrNode.
func Place(b []byte, node int) error {
	if err := Check(node); err != nil {
		return err
	}
	if node >= maskWords*wordBits {
		return fmt.Errorf("%w: %d", ErrNode, node)
	}
	var mask [maskWords]uint64
	mask[node/wordBits] |= 1 << (node % wordBits)
	_, _, errno := unix.Syscall6(unix.SYS_MBIND, uintptr(unsafe.Pointer(unsafe.SliceData(b))),
		uintptr(len(b)), mpolBind,
		uintptr(unsafe.Pointer(&mask)), maskWords*wordBits, 0)
	if errno != 0 {
		return fmt.Errorf("node %d: %w", node, os.NewSyscallError("mbind", errno))
	}
	return nil
}
