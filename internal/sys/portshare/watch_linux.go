// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"verbena/internal/sys/fdtrack"
)

// maxWatched bounds the sockets reported by one wait; others come with the next.
const maxWatched = 16

// watch notifies a member's goroutines when its unix sockets have something to read, or room for
// more. The Go runtime's poller does the same for package net, but it has descriptors, and the
// application may close all of them.
type watch struct {
	// immutable after newWatch
	epoll, event int
	gone         chan struct{} // closed when the goroutine has ended

	mu      sync.Mutex
	sockets map[int]*socket // guarded by mu: by descriptor
}

func newWatch() (*watch, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err == nil {
		err = unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, event,
			&unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(event)})
		if err != nil {
			unix.Close(event)
		}
	}
	if err != nil {
		unix.Close(epoll)
		return nil, os.NewSyscallError("eventfd", err)
	}
	w := &watch{epoll: epoll, event: event, gone: make(chan struct{}), sockets: map[int]*socket{}}
	fdtrack.Add(epoll)
	fdtrack.Add(event)
	go w.run()
	return w, nil
}

// add makes a socket of a descriptor, which is the socket's then, also after an
// error.
func (w *watch) add(fd int) (*socket, error) {
	s := &socket{fd: fd, watch: w, ready: make(chan struct{}, 1), dead: make(chan struct{})}
	w.mu.Lock()
	w.sockets[fd] = s
	w.mu.Unlock()
	fdtrack.Add(fd)
	err := unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, fd,
		&unix.EpollEvent{Events: unix.EPOLLONESHOT, Fd: int32(fd)})
	if err != nil {
		s.close()
		return nil, os.NewSyscallError("epoll_ctl", err)
	}
	return s, nil
}

// shareReads makes several epoll sets have a socket, the watch's own the last. When there is
// something to read, the kernel wakes a thread that waits for the first of them that a thread waits
// for. The watch then needs no arm.
func (w *watch) shareReads(s *socket, sets []int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.armed, s.shared = unix.EPOLLIN, true
	all := append(slices.Clone(sets), w.epoll)
	for _, set := range all { // the order is that of the last additions
		events := uint32(unix.EPOLLIN | unix.EPOLLEXCLUSIVE)
		if set == w.epoll {
			events |= unix.EPOLLET // its goroutine reads later
		}
		// fails for a set that does not have it yet
		_ = unix.EpollCtl(set, unix.EPOLL_CTL_DEL, s.fd, nil)
		err := unix.EpollCtl(set, unix.EPOLL_CTL_ADD, s.fd,
			&unix.EpollEvent{Events: events, Fd: int32(s.fd)})
		if err != nil && set == w.epoll {
			return os.NewSyscallError("epoll_ctl", err)
		}
	}
	s.sets = sets
	return nil
}

// arm makes the watch report once that there is something to read (EPOLLIN) or room to write
// (EPOLLOUT), besides its pending reports.
func (w *watch) arm(s *socket, events uint32) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.armed |= events
	if s.shared {
		return nil
	}
	return w.expect(s)
}

// expect gives the kernel the events of a socket that is open. w.mu is held.
func (w *watch) expect(s *socket) error {
	return unix.EpollCtl(w.epoll, unix.EPOLL_CTL_MOD, s.fd,
		&unix.EpollEvent{Events: s.armed | unix.EPOLLONESHOT, Fd: int32(s.fd)})
}

// report notifies the goroutines that wait for events of a socket. The end of a
// connection is every event. w.mu is held.
func (w *watch) report(s *socket, events uint32) {
	if events&(unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		events = s.armed
	}
	events &= s.armed
	if !s.shared {
		s.armed &^= events
		if s.armed != 0 {
			w.expect(s) // the socket is open as long as the watch knows it
		}
	}
	if events&unix.EPOLLIN != 0 {
		select {
		case s.ready <- struct{}{}:
		default:
		}
	}
	if events&unix.EPOLLOUT != 0 {
		s.full.Store(false)
		s.room()
	}
}

// remove forgets a socket, which is about to be closed: that takes it out of the epoll descriptor,
// unless a child of a fork has it too.
func (w *watch) remove(s *socket) {
	w.mu.Lock()
	delete(w.sockets, s.fd)
	if !fdtrack.Check() {
		for _, set := range s.sets {
			_ = unix.EpollCtl(set, unix.EPOLL_CTL_DEL, s.fd, nil) // it has it, unless it is closed
		}
	}
	w.mu.Unlock()
}

func (w *watch) run() {
	defer close(w.gone)
	var events [maxWatched]unix.EpollEvent
	for {
		n, err := unix.EpollWait(w.epoll, events[:], -1)
		if err == unix.EINTR {
			continue
		}
		if err != nil || fdtrack.Check() {
			w.fail()
			return
		}
		w.mu.Lock()
		for _, e := range events[:n] {
			if int(e.Fd) == w.event {
				w.mu.Unlock()
				return
			}
			// An event of a socket that was closed wakes the next one of this
			// number for nothing.
			if s := w.sockets[int(e.Fd)]; s != nil {
				w.report(s, e.Events)
			}
		}
		w.mu.Unlock()
	}
}

// fail ends all that wait: the descriptors were closed behind our back.
func (w *watch) fail() {
	w.mu.Lock()
	var all []*socket
	for _, s := range w.sockets {
		all = append(all, s)
	}
	w.mu.Unlock()
	for _, s := range all {
		s.close()
	}
}

// close ends the goroutine. The sockets have been closed.
func (w *watch) close() {
	if fdtrack.Check() {
		return // nobody can wake the goroutine, which may be in epoll_wait still
	}
	unix.Write(w.event, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // any number but 0, in either byte order
	<-w.gone
	fdtrack.Close(w.event)
	fdtrack.Close(w.epoll)
}
