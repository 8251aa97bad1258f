// SPDX-License-Identifier: BSD-2-Clause

package fdtrack

import (
	"io"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// sentinel is a socket that nobody uses. An application that closes all
// descriptors, as daemons do, closes it too.
var sentinel struct {
	fd     int    // guarded by mu; 0 while there is none
	cookie uint64 // guarded by mu: no other socket of the system has it
	dead   atomic.Bool
}

// arm makes the sentinel before the first descriptor is added; without a socket,
// or before Linux 4.12, there is none. mu is held.
func arm() {
	if sentinel.fd != 0 || len(all) > 0 || Lost() {
		return
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return
	}
	cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_COOKIE)
	if err != nil {
		unix.Close(fd)
		return
	}
	sentinel.fd, sentinel.cookie = fd, cookie
	all[fd] = struct{}{}
}

// disarm closes the sentinel if it is all that is left. mu is held.
func disarm() {
	if _, there := all[sentinel.fd]; there && len(all) == 1 && !check() {
		delete(all, sentinel.fd)
		unix.Close(sentinel.fd)
		sentinel.fd = 0
	}
}

// Close is Remove, and closes the descriptor unless all are lost.
func Close(fd int) error {
	Remove(fd)
	if Check() {
		return unix.EBADF
	}
	return unix.Close(fd)
}

// keep holds the owner that would close its descriptor when the garbage collector finds it.
var keep []io.Closer // guarded by mu

// CloseConn is Close for the types of package os around a descriptor.
func CloseConn(c interface {
	Conn
	io.Closer
}) error {
	RemoveConn(c)
	if Check() {
		mu.Lock()
		keep = append(keep, c)
		mu.Unlock()
		return unix.EBADF
	}
	return c.Close()
}

// Lost reports whether Check has found the descriptors lost. It costs nothing.
func Lost() bool { return sentinel.dead.Load() }

// Check looks whether the application has closed our descriptors behind our
// back. Their numbers may be its own files' by now, so none is to be used, nor
// closed, again. It is one system call that does not block.
func Check() bool {
	if Lost() {
		return true
	}
	mu.Lock()
	defer mu.Unlock()
	return check()
}

// check is Check. mu is held.
func check() bool {
	if sentinel.fd == 0 {
		return false
	}
	if is, err := unix.GetsockoptUint64(sentinel.fd, unix.SOL_SOCKET, unix.SO_COOKIE); err != nil ||
		is != sentinel.cookie {
		sentinel.dead.Store(true)
	}
	return Lost()
}
