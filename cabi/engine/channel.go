// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

// #include "engine.h"
import "C"

import (
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"verbena/internal/engine"
	"verbena/internal/sys/futex"
)

// A channel represents a completion channel, with the events of its queues that the application has
// not taken. The thread that calls ibv_get_cq_event reads the network itself (take) and returns
// with the event that it finds. The eventfd of the channel is readable while there are other
// events.
type channel struct {
	// immutable
	engine *engine.Engine
	fd     int

	mu sync.Mutex
	// guarded by mu
	pending []*cqEvent // queues that have events, in the order of the first one
	taking  int        // threads that read, and check pending afterwards
	shown   bool       // the eventfd was written and not yet read
	watched bool       // counted by BeginWatch of the engine
	closed  bool
	emptied bool // an event was taken, and was the last one

	armed atomic.Int32 // queues that are to notify
}

// A cqEvent has the events of a completion queue.
type cqEvent struct {
	channel *channel
	cookie  uint64
	count   uint // guarded by channel.mu: number of events; if not 0 it is in pending
	gone    bool // guarded by channel.mu
}

func (o *ctxObject) channelOpen(fd C.int, made *C.vb_handle, bell, sockets *C.int) error {
	b, n := o.engine.ArrivalFDs()
	*bell, *sockets = C.int(b), C.int(n)
	return channels.give(made, &channel{engine: o.engine, fd: int(fd)}, func() error { return nil })
}

func (c *channel) channelClose() error {
	c.mu.Lock()
	c.closed = true
	watched := c.endWatchLocked()
	c.mu.Unlock()
	if watched {
		c.engine.EndWatch()
	}
	return nil
}

//export vb_channel_take
func vb_channel_take(h C.vb_handle, how C.enum_vb_take, cookie *C.vb_cookie, kept *C.int) C.int {
	c := channels.get(handle(h))
	if c == nil {
		return C.int(syscall.EINVAL)
	}
	if how&C.VB_TAKE_WOKEN != 0 {
		c.engine.EndWait()
	}
	if how == C.VB_TAKE_WATCH && c.isEmptied() {
		return C.int(syscall.EAGAIN)
	}
	for tries := 0; ; tries++ {
		e, read, ok := c.take(how&(C.VB_TAKE_WAIT|C.VB_TAKE_WOKEN) == C.VB_TAKE_WAIT)
		if ok {
			*cookie = C.vb_cookie(e)
			if !read {
				*kept = 1
			}
			return 0
		}
		if how&C.VB_TAKE_WAIT == 0 {
			c.leave(how)
			return C.int(syscall.EAGAIN)
		}
		if c.engine.BeginWait() {
			return C.int(syscall.EAGAIN)
		}
		if tries > 0 { // another thread is reading, and may need this core
			futex.Yield()
		}
	}
}

//export vb_channel_unwait
func vb_channel_unwait(h C.vb_handle) {
	if c := channels.get(handle(h)); c != nil {
		c.engine.EndWait()
	}
}

//export vb_channel_unwatch
func vb_channel_unwatch(h C.vb_handle) {
	if c := channels.get(handle(h)); c != nil {
		c.collect(false)
	}
}

// isEmptied reports, once after each event, that the application looks for more and none can come:
// no queue is asked for one. So the application does not sleep. It has messages to answer, and the
// acknowledgements wait for the answers.
func (c *channel) isEmptied() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	emptied := c.emptied && len(c.pending) == 0 && c.armed.Load() == 0
	c.emptied = false
	return emptied
}

// leave prepares for the application to sleep, in an epoll set of its own or elsewhere.
func (c *channel) leave(how C.enum_vb_take) {
	switch {
	case how&C.VB_TAKE_LEAVE != 0:
	case how&C.VB_TAKE_WATCH != 0:
		c.watch(c.engine.BeginWatch)
	default:
		c.engine.Wake()
	}
}

// watch calls begin, a function of the engine, for a channel whose descriptor shows arrivals.
func (c *channel) watch(begin func()) {
	c.mu.Lock()
	watched := c.watched || c.closed
	c.watched = !c.closed
	c.mu.Unlock()
	begin()
	if watched {
		c.engine.EndWatch() // it was already counted
	}
}

// tryWatch is watch, unless there is something to collect.
func (c *channel) tryWatch() bool {
	if !c.engine.TryWatch() {
		return false
	}
	c.mu.Lock()
	watched := c.watched || c.closed
	c.watched = !c.closed
	c.mu.Unlock()
	if watched {
		c.engine.EndWatch() // it was already counted
	}
	return true
}

// endWatchLocked reports whether the caller has to call EndWatch. The caller holds mu.
func (c *channel) endWatchLocked() (watched bool) {
	watched, c.watched = c.watched, false
	return watched
}

// take returns the next event. If there is none it first reads the packets that have arrived. waits
// is that of Engine.Collect.
func (c *channel) take(waits bool) (cookie uint64, read, ok bool) {
	c.mu.Lock()
	if read = len(c.pending) == 0; read {
		c.collectLocked(waits)
	}
	defer c.mu.Unlock()
	if len(c.pending) == 0 {
		return 0, read, false
	}
	e := c.pending[0]
	if e.count--; e.count == 0 {
		c.pending = slices.Delete(c.pending, 0, 1)
	} else {
		c.pending = append(c.pending[1:], e)
	}
	c.emptied = len(c.pending) == 0
	c.showLocked()
	return e.cookie, read, true
}

// collect reads the packets that have arrived. waits is that of Engine.Collect.
func (c *channel) collect(waits bool) {
	c.mu.Lock()
	c.collectLocked(waits)
	c.showLocked()
	c.mu.Unlock()
}

// collectLocked does the same as collect for a caller that holds mu, which it unlocks meanwhile.
// The caller then checks pending, and calls showLocked if there are events.
func (c *channel) collectLocked(waits bool) {
	c.taking++
	watched := c.endWatchLocked()
	c.mu.Unlock()
	if watched {
		c.engine.EndWatch()
	}
	if c.engine.Collect(waits) == 0 {
		c.engine.Flush()
	}
	c.engine.UpdateBoard()
	c.mu.Lock()
	c.taking--
}

// showLocked makes the eventfd readable if events are left for threads that are not in take. The
// caller holds mu.
func (c *channel) showLocked() {
	show := len(c.pending) > 0 && c.taking == 0
	if show == c.shown || c.taking > 0 && c.shown && len(c.pending) > 0 {
		return
	}
	c.shown = show
	one := uint64(1)
	if show {
		rawIO(syscall.SYS_WRITE, c.fd, unsafe.Pointer(&one))
	} else {
		rawIO(syscall.SYS_READ, c.fd, unsafe.Pointer(&one))
	}
}

// put adds one event.
func (e *cqEvent) put() {
	c := e.channel
	c.mu.Lock()
	if !e.gone {
		if e.count++; e.count == 1 {
			c.pending = append(c.pending, e)
		}
		c.showLocked()
	}
	c.mu.Unlock()
}

// withdraw drops the events of a queue, and reports whether there were some.
func (e *cqEvent) withdraw() bool {
	c := e.channel
	c.mu.Lock()
	defer c.mu.Unlock()
	return e.dropLocked()
}

// dropLocked does the same as withdraw for a caller that holds mu.
func (e *cqEvent) dropLocked() (some bool) {
	if some = e.count > 0; some {
		e.count = 0
		c := e.channel
		c.pending = slices.DeleteFunc(c.pending, func(o *cqEvent) bool { return o == e })
		c.showLocked()
	}
	return some
}

// close drops the events of a queue. After it has returned there are no more, and the descriptor is
// not used.
func (e *cqEvent) close() {
	c := e.channel
	c.mu.Lock()
	defer c.mu.Unlock()
	e.gone = true
	e.dropLocked()
}

// rawIO reads or writes an eventfd. It uses RawSyscall because the call does not block: the
// scheduler need not know of it.
func rawIO(call uintptr, fd int, count unsafe.Pointer) {
	for {
		_, _, errno := syscall.RawSyscall(call, uintptr(fd), uintptr(count), 8)
		if errno != syscall.EINTR {
			return
		}
	}
}

// nonblocking sets O_NONBLOCK for the write end of a pipe. The application has the other end, an
// open file with an O_NONBLOCK of its own.
func nonblocking(fd int) { unix.SetNonblock(fd, true) }

// writeRecord writes a record in one piece. It returns false if the pipe is full and the record
// must be written later. A pipe without a reader swallows it.
//
// It uses RawSyscall because the write does not block: the scheduler need not know of it.
func writeRecord(fd int, record []byte) bool {
	for {
		_, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(fd),
			uintptr(unsafe.Pointer(unsafe.SliceData(record))), uintptr(len(record)))
		if errno != syscall.EINTR {
			return errno != syscall.EAGAIN
		}
	}
}

// waitMillis bounds one wait for room. The waiting thread then checks whether the descriptor is
// still in use.
const waitMillis = 50

func waitWritable(fd int) {
	unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, waitMillis)
}
