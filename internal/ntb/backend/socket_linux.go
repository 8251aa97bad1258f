// SPDX-License-Identifier: BSD-2-Clause

package backend

import (
	"errors"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"verbena/internal/sys/fdtrack"
	"verbena/internal/sys/sockaddr"
)

// fd is a descriptor that a forked child must close.
type fd int

const none fd = -1

func hold(n int) fd {
	fdtrack.Add(n)
	return fd(n)
}

func (f *fd) close() {
	if *f != none {
		_ = fdtrack.Close(int(*f)) // nothing is written that could be lost
		*f = none
	}
}

// poll waits until one of the descriptors has its event. It reports whether one has.
func poll(list []unix.PollFd, d time.Duration) (bool, error) {
	for end := time.Now().Add(d); ; {
		ms := int((time.Until(end) + time.Millisecond - 1) / time.Millisecond)
		n, err := unix.Poll(list, max(ms, 0))
		switch {
		case err == nil:
			return n > 0, nil
		case err != unix.EINTR:
			return false, os.NewSyscallError("poll", err)
		}
	}
}

// await waits for one descriptor, until another, or none, is readable: ErrTimeout then,
// as after d.
func await(f fd, events int16, stop fd, d time.Duration) error {
	list := [2]unix.PollFd{{Fd: int32(f), Events: events}, {Fd: int32(stop), Events: unix.POLLIN}}
	if _, err := poll(list[:], d); err != nil {
		return err
	}
	if list[0].Revents == 0 {
		return ErrTimeout
	}
	return nil
}

func socket(family, typ int) (fd, error) {
	n, err := unix.Socket(family, typ|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return none, os.NewSyscallError("socket", err)
	}
	return hold(n), nil
}

// backlog is the number of streams that the system keeps before they are taken.
const backlog = 64

func listen(family, typ int, sa unix.Sockaddr) (fd, error) {
	f, err := socket(family, typ)
	if err != nil {
		return none, err
	}
	if family != unix.AF_UNIX {
		err = os.NewSyscallError("setsockopt",
			unix.SetsockoptInt(int(f), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1))
	}
	if err == nil {
		err = os.NewSyscallError("bind", unix.Bind(int(f), sa))
	}
	if err == nil {
		err = os.NewSyscallError("listen", unix.Listen(int(f), backlog))
	}
	if err != nil {
		f.close()
		return none, err
	}
	return f, nil
}

// connect is one try, as long as await; a peer that does not listen is ErrLost.
func connect(family, typ int, sa unix.Sockaddr, stop fd, d time.Duration) (fd, error) {
	f, err := socket(family, typ)
	if err != nil {
		return none, err
	}
	err = unix.Connect(int(f), sa)
	if errors.Is(err, unix.EINPROGRESS) || errors.Is(err, unix.EINTR) {
		if err = await(f, unix.POLLOUT, stop, d); err == nil {
			var n int
			if n, err = unix.GetsockoptInt(int(f), unix.SOL_SOCKET, unix.SO_ERROR); err == nil &&
				n != 0 {
				err = unix.Errno(n)
			}
		}
	}
	if err == nil {
		return f, nil
	}
	f.close()
	for _, e := range []error{unix.ECONNREFUSED, unix.ENOENT, unix.ECONNRESET, unix.EAGAIN} {
		if errors.Is(err, e) {
			return none, ErrLost
		}
	}
	return none, err
}

// address returns the family and the socket address of an end.
func address(a netip.AddrPort) (family int, sa unix.Sockaddr) {
	return sockaddr.Of(netip.AddrPortFrom(a.Addr().Unmap(), a.Port()))
}
