// SPDX-License-Identifier: BSD-2-Clause

package tcp

import (
	"os"

	"golang.org/x/sys/unix"

	"verbena/internal/sys/fdtrack"
)

// maxEvents bounds the events of one call of Ready; the rest is reported by the next.
const maxEvents = 64

// Set finds the descriptors, among many, that have something to do. It is a descriptor itself,
// which is readable while one has. Ready is for one goroutine at a time, the other methods may be
// called by any.
type Set struct {
	desc   int                        // immutable after NewSet
	events [maxEvents]unix.EpollEvent // of the caller of Ready
	out    [maxEvents]Event
}

// NewSet returns an empty set.
func NewSet() (*Set, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	fdtrack.Add(fd)
	return &Set{desc: fd}, nil
}

// FD returns the set's own descriptor.
func (s *Set) FD() int { return s.desc }

// Add makes a descriptor a member, under an id.
func (s *Set) Add(fd int, id uint64, want Interest) error {
	return s.control(unix.EPOLL_CTL_ADD, fd, id, want)
}

// Change changes the events that a member waits for.
func (s *Set) Change(fd int, id uint64, want Interest) error {
	return s.control(unix.EPOLL_CTL_MOD, fd, id, want)
}

// Remove ends Add. Call it before the descriptor is closed.
func (s *Set) Remove(fd int) error { return s.control(unix.EPOLL_CTL_DEL, fd, 0, 0) }

func (s *Set) control(op, fd int, id uint64, want Interest) error {
	ev := unix.EpollEvent{Fd: int32(uint32(id)), Pad: int32(id >> 32)}
	if want&WantRead != 0 {
		ev.Events |= unix.EPOLLIN
	}
	if want&WantWrite != 0 {
		ev.Events |= unix.EPOLLOUT
	}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(s.desc, op, fd, &ev))
}

// Ready returns the members that have something to do now. The result is valid until the next call.
func (s *Set) Ready() ([]Event, error) {
	n, err := s.poll()
	if err == unix.EINTR {
		return nil, nil
	}
	if err != nil {
		return nil, os.NewSyscallError("epoll_wait", err)
	}
	for i := range s.events[:n] {
		ev := &s.events[i]
		failed := ev.Events&(unix.EPOLLERR|unix.EPOLLHUP) != 0
		s.out[i] = Event{
			ID:       uint64(uint32(ev.Fd)) | uint64(uint32(ev.Pad))<<32,
			Readable: failed || ev.Events&unix.EPOLLIN != 0,
			Writable: failed || ev.Events&unix.EPOLLOUT != 0,
		}
	}
	return s.out[:n], nil
}

// Close frees the set's descriptor, not its members'.
func (s *Set) Close() error {
	return fdtrack.Close(s.desc)
}
