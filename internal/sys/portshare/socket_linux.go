// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"verbena/internal/sys/fdtrack"
)

// socket is a unix socket, of a connection or of a listener. Its descriptor is closed when the last
// call that uses it has returned.
type socket struct {
	// immutable
	fd    int
	watch *watch
	ready chan struct{} // a token when there is something to read
	dead  chan struct{} // closed by close
	// called when there is room to write; must not block; set before that is asked for
	room func()

	full  atomic.Bool // there was no room to write, and the watch is to report some
	armed uint32      // guarded by watch.mu: the events that the watch is to report
	// guarded by watch.mu: shareReads was called, and the sets that it was called with
	shared bool
	sets   []int

	mu     sync.Mutex
	users  int  // guarded by mu: calls under way
	closed bool // guarded by mu
}

// do calls f with the descriptor, which stays open meanwhile.
func (s *socket) do(f func(fd int) error) error {
	s.mu.Lock()
	if s.closed || fdtrack.Check() {
		s.mu.Unlock()
		return net.ErrClosed
	}
	s.users++
	s.mu.Unlock()
	defer s.leave()
	return f(s.fd)
}

func (s *socket) leave() {
	s.mu.Lock()
	s.users--
	last := s.closed && s.users == 0
	s.mu.Unlock()
	if last {
		s.watch.remove(s)
		fdtrack.Close(s.fd)
	}
}

// close ends every call on the socket.
func (s *socket) close() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	s.users++
	s.mu.Unlock()
	if !fdtrack.Check() {
		unix.Shutdown(s.fd, unix.SHUT_RDWR)
	}
	close(s.dead)
	s.leave()
}

// ended reports whether the socket was closed.
func (s *socket) ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// await calls f, which must not block, and as long as it returns EAGAIN waits
// for something to read before it does so again; if deadline is not zero until
// then.
func (s *socket) await(deadline time.Time, f func(fd int) error) error {
	for {
		switch err := s.do(f); err {
		case unix.EINTR:
		case unix.EAGAIN:
			if err := s.wait(deadline); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

func (s *socket) wait(deadline time.Time) error {
	if !deadline.IsZero() {
		return s.do(func(fd int) error { return pollUntil(fd, deadline) })
	}
	if err := s.do(func(int) error { return s.watch.arm(s, unix.EPOLLIN) }); err != nil {
		return err
	}
	select {
	case <-s.ready:
		return nil
	case <-s.dead:
		return net.ErrClosed
	}
}

// pollUntil blocks until there is something to read.
func pollUntil(fd int, deadline time.Time) error {
	left := time.Until(deadline)
	if left <= 0 {
		return os.ErrDeadlineExceeded
	}
	_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}},
		int(left.Milliseconds())+1)
	if errors.Is(err, unix.EINTR) {
		err = nil
	}
	return err
}
