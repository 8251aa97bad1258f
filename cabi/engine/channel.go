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
	"verbena/internal/engine/policy"
	"verbena/internal/monotime"
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
	hidden  int        // number of these whose event the eventfd does not show yet
	taking  int        // threads that read, and check pending afterwards
	sleeps  bool       // threads wait by cqs_sleep, and take no event
	asleep  int        // of those, the ones that wait now
	shown   bool       // the eventfd was written and not yet read
	watched bool       // counted by BeginWatch of the engine
	closed  bool
	emptied bool // an event was taken, and was the last one

	armed atomic.Int32 // queues that are to notify
	// the queue that the application is about to poll until it is empty, or nil
	drains atomic.Pointer[cqEvent]
	alarm  engine.Alarm // shows hidden events
	spin   engine.Spin  // of threads that are about to sleep; atomic
}

// hideTime bounds how long an event is hidden. The background goroutine naps as long beside threads
// that sleep and wake up, so that the alarm wakes no thread.
var hideTime = 2 * policy.Nap

// A cqEvent has the events of a completion queue.
type cqEvent struct {
	channel *channel
	cookie  uint64
	// guarded by channel.mu
	count  uint          // number of events; if not 0 it is in pending
	hidden monotime.Time // since when the eventfd does not show the event; 0: it does
	gone   bool
}

func (o *ctxObject) channelOpen(fd C.int, made *C.vb_handle, bell, sockets *C.int) error {
	b, n := o.engine.ArrivalFDs()
	*bell, *sockets = C.int(b), C.int(n)
	return channels.give(made, newChannel(o.engine, int(fd)), func() error { return nil })
}

func newChannel(e *engine.Engine, fd int) *channel {
	c := &channel{engine: e, fd: fd}
	c.alarm = engine.NewMovingAlarm(c.showOld, c.hiddenUntil)
	return c
}

func (c *channel) channelClose() error {
	c.mu.Lock()
	c.closed = true
	watched := c.endWatchLocked()
	c.mu.Unlock()
	c.engine.EndAlarm(&c.alarm)
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
	c.spin.Woke(c.engine)
	waits := how&(C.VB_TAKE_WAIT|C.VB_TAKE_WOKEN|C.VB_TAKE_AGAIN) == C.VB_TAKE_WAIT
	for tries := 0; ; tries++ {
		e, messages, ok := c.take(waits)
		if !ok && messages == 0 && waits && tries == 0 {
			c.spin.Wait(c.engine, func() bool {
				e, _, ok = c.take(false)
				return ok
			})
		}
		if ok {
			*cookie = C.vb_cookie(e)
			if messages < 0 {
				*kept = 1
			}
			return 0
		}
		if messages > 0 && how&C.VB_TAKE_AGAIN == 0 {
			return C.int(syscall.EINPROGRESS)
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

// tryWatch is watch, unless there is something to collect. settle is that of Engine.TryWatch.
func (c *channel) tryWatch(settle bool) bool {
	if !c.engine.TryWatch(settle) {
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

// take returns the next event. If none is shown it first reads the packets that have arrived. waits
// is that of Engine.Collect. messages is the number that it read, -1 if it did not read.
func (c *channel) take(waits bool) (cookie uint64, messages int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	messages = -1
	if c.drains.Load() != nil {
		c.drains.Store(nil) // the application may sleep
	}
	if len(c.pending) == c.hidden {
		messages = c.collectLocked(waits)
	}
	if len(c.pending) == 0 {
		return 0, messages, false
	}
	e := c.pending[0]
	e.unhideLocked()
	if e.count--; e.count == 0 {
		c.pending = slices.Delete(c.pending, 0, 1)
	} else {
		c.pending = append(c.pending[1:], e)
	}
	c.emptied = len(c.pending) == 0
	c.showLocked()
	return e.cookie, messages, true
}

// shows reports whether there is an event that is not hidden.
func (c *channel) shows() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pending) > c.hidden
}

// collect reads the packets that have arrived, and shows all events, also the next. waits is that
// of Engine.Collect.
func (c *channel) collect(waits bool) {
	c.mu.Lock()
	c.drains.Store(nil)
	c.collectLocked(waits)
	for _, e := range c.pending {
		e.unhideLocked()
	}
	c.showLocked()
	c.mu.Unlock()
}

// collectLocked does the same as collect for a caller that holds mu, which it unlocks meanwhile.
// The caller then checks pending, and calls showLocked if there are events. It returns the number
// of messages that it read.
func (c *channel) collectLocked(waits bool) (messages int) {
	c.taking++
	watched := c.endWatchLocked()
	c.mu.Unlock()
	if watched {
		c.engine.EndWatch()
	}
	if messages = c.engine.Collect(waits); messages == 0 {
		c.engine.Flush()
	}
	c.engine.UpdateBoard()
	c.mu.Lock()
	c.taking--
	return messages
}

// showLocked makes the eventfd readable if events are left for threads that are not in take, and
// that are not hidden. It is not readable while no thread of cqs_sleep waits. The caller holds mu.
func (c *channel) showLocked() {
	events := len(c.pending) > c.hidden && (c.asleep > 0 || !c.sleeps)
	show := events && c.taking == 0
	if show == c.shown || c.taking > 0 && c.shown && events {
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

// polled notes whether the application polls the queue until it is empty, before it sleeps. Until
// it has done so an event of the queue is hidden.
func (e *cqEvent) polled(next bool) {
	d := &e.channel.drains
	switch {
	case next:
		d.Store(e)
	case d.Load() != nil:
		d.Store(nil)
	}
}

// put adds one event.
func (e *cqEvent) put() {
	c := e.channel
	c.mu.Lock()
	if !e.gone {
		e.unhideLocked()
		if e.count++; e.count == 1 {
			c.pending = append(c.pending, e)
			if c.drains.Load() == e {
				e.hideLocked(0)
			}
		}
		c.showLocked()
	}
	c.mu.Unlock()
}

// hideLocked hides an event from the eventfd: the application polls its completions now, and need
// not be woken for them. ibv_get_cq_event returns the event. The eventfd shows it with the next
// completion, or after hideTime. since, if not 0, says since when the event has been hidden. The
// caller holds mu.
func (e *cqEvent) hideLocked(since monotime.Time) {
	if since == 0 {
		since = monotime.Now()
	}
	if e.hidden == 0 {
		e.channel.hidden++
	}
	e.hidden = since
	e.channel.engine.Arm(&e.channel.alarm, since.Add(hideTime))
}

// unhideLocked ends that. The caller holds mu and calls showLocked.
func (e *cqEvent) unhideLocked() {
	if e.hidden != 0 {
		e.hidden = 0
		e.channel.hidden--
	}
}

// show ends that for an event whose queue has another completion.
func (e *cqEvent) show() {
	e.channel.mu.Lock()
	e.unhideLocked()
	e.channel.showLocked()
	e.channel.mu.Unlock()
}

// hiddenUntil returns when the oldest hidden event is to be shown, Never if none is hidden. The
// application takes most events before that. ok is false, and the time now, if it has come.
func (c *channel) hiddenUntil(now monotime.Time) (to monotime.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	to = monotime.Never
	for _, e := range c.pending {
		if e.hidden != 0 {
			to = min(to, e.hidden.Add(hideTime))
		}
	}
	if to <= now {
		return now, false
	}
	return to, true
}

// showOld shows the events that have been hidden for hideTime.
func (c *channel) showOld(now monotime.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := monotime.Never
	for _, e := range c.pending {
		if until := e.hidden.Add(hideTime); until <= now {
			e.unhideLocked()
		} else if e.hidden != 0 {
			next = min(next, until)
		}
	}
	c.showLocked()
	if c.hidden > 0 {
		c.engine.Arm(&c.alarm, next)
	}
}

// dropLocked drops the events of a queue. The caller holds mu.
func (e *cqEvent) dropLocked() {
	if e.count == 0 {
		return
	}
	e.count = 0
	e.unhideLocked()
	c := e.channel
	c.pending = slices.DeleteFunc(c.pending, func(o *cqEvent) bool { return o == e })
	c.showLocked()
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
