// SPDX-License-Identifier: BSD-2-Clause

//go:build linux

package udp

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"verbena/internal/monotime"
)

// epollWait waits with nanosecond resolution, or with milliseconds where the
// kernel is older than 5.11 or a sandbox refuses the call. A timeout rounded to
// milliseconds is rounded up: a timer must not fire early.
func (w *waiter) epollWait(events []unix.EpollEvent, timeout monotime.Duration) (int, error) {
	if !w.noPwait2 {
		var ts *unix.Timespec
		if timeout >= 0 {
			v := unix.NsecToTimespec(int64(timeout))
			ts = &v
		}
		var r uintptr
		var errno syscall.Errno
		if timeout == 0 {
			r, _, errno = unix.RawSyscall6(unix.SYS_EPOLL_PWAIT2, uintptr(w.epoll),
				uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)),
				uintptr(unsafe.Pointer(ts)), 0, 0)
		} else {
			r, _, errno = unix.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(w.epoll),
				uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)),
				uintptr(unsafe.Pointer(ts)), 0, 0)
		}
		switch errno {
		case 0:
			return int(r), nil
		case unix.ENOSYS, unix.EPERM:
			w.noPwait2 = true
		default:
			return 0, errno
		}
	}
	ms := -1
	if timeout >= 0 {
		ms = int(min((timeout+monotime.Millisecond-1)/monotime.Millisecond, 1<<30))
	}
	return unix.EpollWait(w.epoll, events, ms)
}

// drain reads an eventfd, which does not block: the scheduler need not know.
func drain(fd int, count *[8]byte) {
	unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(count)), uintptr(len(count)))
}
