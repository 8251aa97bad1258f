// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

// #include "engine.h"
// typedef const vb_handle const_vb_handle;
import "C"

import (
	"syscall"
	"unsafe"

	"verbena/internal/engine"
	"verbena/internal/sys/futex"
)

// A sleep names the queues of one wait of a thread. Unlike a thread in ibv_get_cq_event it waits
// for several queues at once, and polls all of them when it wakes up. So it takes no events: their
// eventfds are written only while a thread sleeps, and other threads read its completions.
type sleep []handle

func sleepOf(list *C.const_vb_handle, n C.uint) sleep {
	return unsafe.Slice((*handle)(unsafe.Pointer(list)), int(n))
}

// engine returns the engine of the queues, nil if all are gone.
func (s sleep) engine() *engine.Engine {
	for _, h := range s {
		if o := cqs.get(h); o != nil && o.event != nil {
			return o.ctx.engine
		}
	}
	return nil
}

//export vb_cqs_sleep
func vb_cqs_sleep(list *C.const_vb_handle, n C.uint, how C.enum_vb_take) C.int {
	s := sleepOf(list, n)
	e := s.engine()
	if e == nil {
		return C.int(syscall.EINVAL)
	}
	reads := how&C.VB_TAKE_WAIT != 0
	if how&C.VB_TAKE_WOKEN != 0 {
		s.end(e, reads)
	}
	for tries := 0; ; tries++ {
		if reads {
			if e.Collect(true) == 0 {
				e.Flush()
			}
			e.UpdateBoard()
		}
		if s.found() || s.arm() {
			return 0
		}
		s.count(1)
		if !reads {
			e.Settle()
			return C.int(syscall.EAGAIN)
		}
		if e.BeginWait() {
			return C.int(syscall.EAGAIN)
		}
		s.count(-1)
		if tries > 0 { // another thread is reading, and may need this core
			futex.Yield()
		}
	}
}

//export vb_cqs_woken
func vb_cqs_woken(list *C.const_vb_handle, n C.uint, how C.enum_vb_take) {
	s := sleepOf(list, n)
	if e := s.engine(); e != nil {
		s.end(e, how&C.VB_TAKE_WAIT != 0)
	}
}

// end ends what count and BeginWait began.
func (s sleep) end(e *engine.Engine, reads bool) {
	if reads {
		e.EndWait()
	}
	s.count(-1)
}

// found reports whether there are completions.
func (s sleep) found() bool {
	for _, h := range s {
		if o := cqs.get(h); o != nil && o.verbs.Len() > 0 {
			return true
		}
	}
	return false
}

// arm asks all queues for an event, and drops those of before. It reports whether completions have
// come meanwhile.
func (s sleep) arm() (found bool) {
	for _, h := range s {
		o := cqs.get(h)
		if o == nil || o.event == nil {
			continue
		}
		o.event.drop()
		_ = o.verbs.RequestNotify(false) // it has a channel
		found = found || o.verbs.Len() > 0
	}
	return found
}

// drop drops the events of a queue.
func (e *cqEvent) drop() {
	e.channel.mu.Lock()
	e.dropLocked()
	e.channel.mu.Unlock()
}

// count adds to the threads that sleep. The eventfd shows events while there are some.
func (s sleep) count(n int) {
	for _, h := range s {
		if o := cqs.get(h); o != nil && o.event != nil {
			c := o.event.channel
			c.mu.Lock()
			c.sleeps = true
			c.asleep += n
			c.showLocked()
			c.mu.Unlock()
		}
	}
}
