package held

import (
	"io"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// canary is a socket that nobody uses. An application that closes all
// descriptors, as daemons do, closes it too.
var canary struct {
	fd     atomic.Int64  // 0 before the first Add, -1 where there is none
	cookie atomic.Uint64 // no other socket of the system has it
	dead   atomic.Bool
}

// hang makes the canary. mu is held.
func hang() {
	if canary.fd.Load() != 0 {
		return
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		canary.fd.Store(-1)
		return
	}
	cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_COOKIE)
	if err != nil { // before Linux 4.12
		unix.Close(fd)
		canary.fd.Store(-1)
		return
	}
	canary.cookie.Store(cookie)
	canary.fd.Store(int64(fd))
	all[fd] = struct{}{}
}

// Close is Remove, and closes the descriptor unless all are lost.
func Close(fd int) error {
	Remove(fd)
	if Check() {
		return unix.EBADF
	}
	return unix.Close(fd)
}

// keep has what would close its descriptor when the garbage collector finds it.
var keep []io.Closer // guarded by mu

// CloseConn is Close of what package os has around a descriptor.
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
func Lost() bool { return canary.dead.Load() }

// Check looks whether the application has closed our descriptors behind our
// back. Their numbers may be its own files' by now, so none is to be used, nor
// closed, again. It is one system call that does not block.
func Check() bool {
	if Lost() {
		return true
	}
	fd := canary.fd.Load()
	if fd <= 0 {
		return false
	}
	if is, err := unix.GetsockoptUint64(int(fd), unix.SOL_SOCKET, unix.SO_COOKIE); err != nil || is != canary.cookie.Load() {
		canary.dead.Store(true)
	}
	return Lost()
}
