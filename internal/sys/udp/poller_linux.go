// SPDX-License-Identifier: BSD-2-Clause

package udp

import (
	"encoding/binary"
	"os"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"verbena/internal/monotime"
	"verbena/internal/sys/fdtrack"
)

// maxEvents bounds the events of one wait; the rest is reported by the next.
const maxEvents = 64

// wakeID marks the eventfd among the events. A socket cannot have it: ids are
// kept as two halves of the event's data and this one is refused by add.
const wakeID = ^uint64(0)

// lostPause spaces the waits on a descriptor that is closed.
const lostPause = 10 * monotime.Millisecond

// waiter is an epoll descriptor and an eventfd that interrupts it.
type waiter struct {
	epoll, event int                        // immutable after open
	woken        atomic.Bool                // the eventfd has been written and not yet read
	noPwait2     bool                       // owned by the waiting goroutine
	events       [maxEvents]unix.EpollEvent // owned by the waiting goroutine
}

func (w *waiter) open() (err error) {
	if err = w.openSet(); err != nil {
		return err
	}
	if err = w.control(unix.EPOLL_CTL_ADD, w.event, wakeID, unix.EPOLLIN); err != nil {
		w.close()
	}
	return err
}

// openSet leaves the eventfd out of the epoll set.
func (w *waiter) openSet() (err error) {
	if w.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	if w.event, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		unix.Close(w.epoll)
		return os.NewSyscallError("eventfd", err)
	}
	fdtrack.Add(w.epoll)
	fdtrack.Add(w.event)
	return nil
}

func (w *waiter) control(op, fd int, id uint64, events uint32) error {
	ev := unix.EpollEvent{Events: events, Fd: int32(uint32(id)), Pad: int32(id >> 32)}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(w.epoll, op, fd, &ev))
}

func (w *waiter) add(fd int, id uint64) error {
	if id == wakeID {
		return os.NewSyscallError("epoll_ctl", unix.EINVAL)
	}
	return w.control(unix.EPOLL_CTL_ADD, fd, id, unix.EPOLLIN)
}

func (w *waiter) remove(fd int) error { return w.control(unix.EPOLL_CTL_DEL, fd, 0, 0) }

func (w *waiter) setPaused(fd int, id uint64, paused bool) error {
	events := uint32(unix.EPOLLIN)
	if paused {
		events = 0
	}
	return w.control(unix.EPOLL_CTL_MOD, fd, id, events)
}

func (w *waiter) wait(timeout monotime.Duration, ready []uint64) (int, error) {
	// One event more than asked for: the eventfd's.
	n, err := w.epollWait(w.events[:min(len(ready)+1, maxEvents)], timeout)
	if err == unix.EINTR {
		return 0, nil
	}
	if err != nil {
		// The application has closed the descriptor. A caller that goes on all the same does so
		// slowly. There is no timer: it would start the Go runtime's poller, whose descriptors the
		// application may close.
		unix.Nanosleep(&unix.Timespec{Nsec: int64(lostPause)}, nil)
		return 0, os.NewSyscallError("epoll_wait", err)
	}
	m := 0
	for i := range w.events[:n] {
		ev := &w.events[i]
		id := uint64(uint32(ev.Fd)) | uint64(uint32(ev.Pad))<<32
		switch {
		case id == wakeID:
			w.silence()
		case m < len(ready):
			ready[m] = id
			m++
		}
	}
	return m, nil
}

func (w *waiter) wake() {
	if w.woken.CompareAndSwap(false, true) && !fdtrack.Check() {
		var one [8]byte
		binary.NativeEndian.PutUint64(one[:], 1)
		unix.Write(w.event, one[:])
	}
}

// silence reads the eventfd. It reads first: a Wake after the store writes anew. The other way
// round its count could be read here, and woken would keep all later ones from writing.
func (w *waiter) silence() {
	if fdtrack.Lost() {
		return
	}
	var count [8]byte
	drain(w.event, &count)
	w.woken.Store(false)
}

func (w *waiter) wakeFD() int { return w.event }

func (w *waiter) pollFD() int { return w.epoll }

// lost asks /proc, as all files of these kinds are one to fstat.
func (w *waiter) lost() bool {
	if fdtrack.Check() {
		return true
	}
	for fd, want := range map[int]string{w.epoll: "anon_inode:[eventpoll]",
		w.event: "anon_inode:[eventfd]"} {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil {
			return true
		}
		if is, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd)); err == nil && is != want {
			return true
		}
	}
	return false
}

func (w *waiter) close() error {
	fdtrack.Close(w.event)
	return fdtrack.Close(w.epoll)
}
