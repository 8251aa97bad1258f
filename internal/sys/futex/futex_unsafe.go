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

// Of the Go runtime, which keeps them for such as us: go.dev/issue/67401.
//
//go:linkname entersyscallblock runtime.entersyscallblock
func entersyscallblock()

//go:linkname exitsyscall runtime.exitsyscall
func exitsyscall()

// wait blocks the thread while the state is asleep, until the limit. It is
// nosplit as all that runs between the two calls.
//
//go:nosplit
//go:norace
func (n *Nap) wait() {
	state, limit := uintptr(unsafe.Pointer(&n.state)), uintptr(unsafe.Pointer(&n.limit))
	entersyscallblock()
	unix.RawSyscall6(unix.SYS_FUTEX, state, futexWait, asleep, limit, 0, 0)
	exitsyscall()
}

func (n *Nap) wake() {
	unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&n.state)), futexWake, 1, 0, 0, 0)
}
