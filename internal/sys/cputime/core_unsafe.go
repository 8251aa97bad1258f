// SPDX-License-Identifier: BSD-2-Clause

//go:build linux

package cputime

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// core returns the number of the core that the calling thread runs on.
func core() (n int, err error) {
	var cpu uint32
	_, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(cpu), nil
}
