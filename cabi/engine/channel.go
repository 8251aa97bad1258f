// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

import (
	"encoding/binary"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A channel is the write end of a completion channel's pipe. Its queues write
// their events with single non-blocking writes, on the thread that found the
// completion. When the pipe is full they count what they owe, one number a
// queue, and a goroutine that lives as long as something is owed writes it when
// the application has read.
type channel struct {
	fd int // immutable

	mu sync.Mutex
	// guarded by mu
	queues  int        // how many use it
	owing   []*cqEvent // those that owe events, in the order of the first one
	writing bool       // the goroutine is there
}

// A cqEvent is a completion queue as its channel knows it.
type cqEvent struct {
	channel *channel
	record  [8]byte // the queue's cookie: vb_cq_event
	owed    uint    // guarded by channel.mu
	gone    bool    // guarded by channel.mu
}

var channels = struct {
	mu sync.Mutex
	of map[int]*channel // guarded by mu: by descriptor
}{of: map[int]*channel{}}

// newCQEvent prepares the events of a queue that is being created.
func newCQEvent(fd int, cookie uint64) *cqEvent {
	channels.mu.Lock()
	defer channels.mu.Unlock()
	nonblocking(fd)
	c := channels.of[fd]
	if c == nil {
		c = &channel{fd: fd}
		channels.of[fd] = c
	}
	c.mu.Lock()
	c.queues++
	c.mu.Unlock()
	e := &cqEvent{channel: c}
	binary.NativeEndian.PutUint64(e.record[:], cookie)
	return e
}

// put writes one event, at once or later.
func (e *cqEvent) put() {
	c := e.channel
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.gone {
		return
	}
	if len(c.owing) == 0 && writeRecord(c.fd, e.record[:]) {
		return
	}
	if e.owed++; e.owed == 1 {
		c.owing = append(c.owing, e)
	}
	if !c.writing {
		c.writing = true
		go c.writeOwed()
	}
}

// writeOwed writes what did not fit as soon as it does.
func (c *channel) writeOwed() {
	for {
		waitWritable(c.fd)
		c.mu.Lock()
		for len(c.owing) > 0 {
			e := c.owing[0]
			if e.gone || e.owed == 0 {
				c.owing = c.owing[1:]
				continue
			}
			if !writeRecord(c.fd, e.record[:]) {
				break
			}
			e.owed--
		}
		if len(c.owing) == 0 {
			c.owing, c.writing = nil, false
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
	}
}

// close ends the events of a queue. When it returns none is written any more;
// after the last queue's the descriptor is left alone.
func (e *cqEvent) close() {
	channels.mu.Lock()
	defer channels.mu.Unlock()
	c := e.channel
	c.mu.Lock()
	defer c.mu.Unlock()
	e.gone = true
	if c.queues--; c.queues == 0 {
		delete(channels.of, c.fd)
	}
}

// nonblocking makes a pipe's write end so. The application has the other end,
// which is another open file: its O_NONBLOCK is its own.
func nonblocking(fd int) { unix.SetNonblock(fd, true) }

// writeRecord writes a record in one piece and reports whether that is done
// with: false asks to write it later. A pipe without a reader swallows it.
//
// RawSyscall, as the write does not block: the scheduler need not know.
func writeRecord(fd int, record []byte) bool {
	for {
		_, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(record))), uintptr(len(record)))
		if errno != syscall.EINTR {
			return errno != syscall.EAGAIN
		}
	}
}

// waitMillis is how long one wait for room lasts: whoever waits looks up then
// whether the descriptor is still wanted.
const waitMillis = 50

func waitWritable(fd int) {
	unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, waitMillis)
}
