// SPDX-License-Identifier: BSD-2-Clause

package ifwatch

import (
	"os"

	"golang.org/x/sys/unix"

	"verbena/internal/sys/fdtrack"
)

// Monitor reports whether interfaces and their addresses have changed. The kernel puts a message
// into its netlink socket with each change, before the command that made the change returns. Two
// system calls see that there is none; to list addresses takes dozens of microseconds.
//
// One thread at a time may call its methods.
type Monitor struct {
	fd     int
	cookie uint64 // no other socket of the system has it
}

// NewMonitor begins to watch the calling thread's network namespace.
func NewMonitor() (*Monitor, error) {
	fd, err := netlinkSocket()
	if err != nil {
		return nil, err
	}
	cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_COOKIE)
	if err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("getsockopt", err)
	}
	fdtrack.Add(fd)
	return &Monitor{fd, cookie}, nil
}

// Changed reports whether there was a change since the last call. Once the application has closed
// the socket, with all others, each call reports one.
func (m *Monitor) Changed() bool {
	if fdtrack.Lost() {
		return true
	}
	// The number may be that of a file of the application's.
	is, err := unix.GetsockoptUint64(m.fd, unix.SOL_SOCKET, unix.SO_COOKIE)
	if err != nil || is != m.cookie {
		return true
	}
	changed := false
	for {
		var some [1]byte // of each message; the rest is dropped
		switch _, _, err := unix.Recvfrom(m.fd, some[:], unix.MSG_DONTWAIT); err {
		case unix.EAGAIN:
			return changed
		case nil, unix.ENOBUFS, unix.EINTR: // ENOBUFS: messages were lost
			changed = true
		default:
			return true
		}
	}
}

// Close ends watching.
func (m *Monitor) Close() { _ = fdtrack.Close(m.fd) } // fails once the application has closed it
