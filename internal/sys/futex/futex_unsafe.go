// SPDX-License-Identifier: BSD-2-Clause

//go:build linux

package futex

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	futexWait = 0 | futexPrivate
	futexWake = 1 | futexPrivate

	futexPrivate = 128
)

// The Go runtime keeps these for packages that link to them: go.dev/issue/67401.
//
//go:linkname entersyscallblock runtime.entersyscallblock
func entersyscallblock()

//go:linkname exitsyscall runtime.exitsyscall
func exitsyscall()

// block blocks the thread while the state is asleep, until the limit. It is
// nosplit as all that runs between the two calls.
//
//go:nosplit
//go:norace
func (s *Sleeper) block() {
	state, limit := uintptr(unsafe.Pointer(&s.state)), uintptr(unsafe.Pointer(&s.limit))
	entersyscallblock()
	unix.RawSyscall6(unix.SYS_FUTEX, state, futexWait, asleep, limit, 0, 0)
	exitsyscall()
}

func (s *Sleeper) unblock() {
	unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&s.state)), futexWake, 1, 0, 0, 0)
}
