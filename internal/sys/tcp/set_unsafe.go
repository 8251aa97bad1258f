// SPDX-License-Identifier: BSD-2-Clause

//go:build linux

package tcp

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// poll asks without waiting. Raw: the call does not block, so the scheduler need
// not know of it.
func (s *Set) poll() (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(s.desc),
		uintptr(unsafe.Pointer(&s.events)), maxEvents, 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
