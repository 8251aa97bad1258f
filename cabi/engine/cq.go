// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

// #include "engine.h"
import "C"

import (
	"sync/atomic"
	"time"
	"unsafe"

	"verbena/ib"
	"verbena/internal/device"
	"verbena/internal/engine"
	"verbena/internal/queue"
)

// slotsOf returns the slots of a ring as a slice. It checks the number before it uses the pointer.
func slotsOf(slots *C.struct_vb_wc, mask C.uint64_t) []ib.WC {
	if slots == nil || mask >= 2*device.MaxCQE {
		return nil
	}
	return unsafe.Slice((*ib.WC)(unsafe.Pointer(slots)), int(mask)+1)
}

// timesOf returns the times of the slots, which lie behind them.
func timesOf(slots *C.struct_vb_wc, mask C.uint64_t) []ib.WCTime {
	n := len(slotsOf(slots, mask))
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*ib.WCTime)(unsafe.Pointer(unsafe.Add(unsafe.Pointer(slots),
		uintptr(n)*unsafe.Sizeof(ib.WC{})))), n)
}

//export vb_clock
func vb_clock(ns *C.uint64_t) { *ns = C.uint64_t(engine.Clock().Device) }

func (o *ctxObject) cqCreate(depth C.int, ring *C.struct_vb_cq_ring, timed C.int, comp C.vb_handle,
	cookie C.vb_cookie, cq *C.vb_handle) error {
	q := &cqObject{ctx: o, timed: timed != 0}
	var times []ib.WCTime
	if q.timed {
		times = timesOf(ring.slots, ring.mask)
	}
	var notify, next func()
	var armed *atomic.Int32
	if comp != 0 {
		c := channels.get(handle(comp))
		if c == nil {
			return channels.none()
		}
		q.event = &cqEvent{channel: c, cookie: uint64(cookie)}
		notify, next, armed = q.event.put, q.event.show, &c.armed
	}
	made, err := o.verbs.CreateCQIn((*queue.Ring)(unsafe.Pointer(ring)),
		slotsOf(ring.slots, ring.mask), times, int(depth), notify, next, armed)
	if err == nil {
		q.verbs = made
		err = cqs.give(cq, q, made.Destroy)
	}
	if err != nil {
		if q.event != nil {
			q.event.close()
		}
		return err
	}
	o.cookies.Store(made, uint64(cookie))
	if q.event != nil {
		o.events.Store(q.event, true)
	}
	return nil
}

func (o *cqObject) resize(depth C.int, slots *C.struct_vb_wc, mask C.uint64_t) error {
	var times []ib.WCTime
	if o.timed {
		times = timesOf(slots, mask)
	}
	return o.verbs.ResizeIn(int(depth), slotsOf(slots, mask), times)
}

func (o *cqObject) moderate(count, microseconds C.int) error {
	return o.verbs.Moderate(int(count), time.Duration(microseconds)*time.Microsecond)
}

func (o *cqObject) arm(solicitedOnly C.int, how C.enum_vb_arm) error {
	o.habit.arms()
	if o.event != nil {
		o.event.polled(how == C.VB_ARM_POLLS)
	}
	err := o.verbs.RequestNotify(solicitedOnly != 0)
	if err == nil && how == C.VB_ARM_SLEEPS {
		o.event.channel.watch(o.ctx.engine.BeginWatchEarly)
	}
	return err
}

//export vb_nap_begin
func vb_nap_begin(cq C.vb_handle, bell, sockets *C.int) C.int {
	o := cqs.get(handle(cq))
	if o == nil || !o.ctx.engine.BeginNap() {
		return 0
	}
	b, n := o.ctx.engine.ArrivalFDs()
	*bell, *sockets = C.int(b), C.int(n)
	return 1
}

//export vb_nap_end
func vb_nap_end(cq C.vb_handle) {
	if o := cqs.get(handle(cq)); o != nil {
		o.ctx.engine.EndNap()
		o.ctx.engine.UpdateBoard()
	}
}

//export vb_cq_sleep
func vb_cq_sleep(cq C.vb_handle, most C.int) C.int {
	if o := cqs.get(handle(cq)); o != nil && o.event != nil && o.sleep(int(most)) {
		return 1
	}
	return 0
}

// sleepReads limits how often a thread reads on before it sleeps.
const sleepReads = 4

// sleep announces that the application may wait for the channel's descriptor. It has asked for an
// event of this queue and found no completion. It polls up to most now, if sleep returns true. If
// there are fewer it may wait after that, unless it is known to poll until there are none.
func (o *cqObject) sleep(most int) (found bool) {
	c := o.event.channel
	o.event.polled(false)
	o.habit.polls()
	c.engine.Flush() // what the application has left to send
	for n := 0; ; n++ {
		have := o.read(most, true)
		if have == 0 && n == 0 {
			c.spin.Wait(c.engine, func() bool {
				have = o.read(most, false)
				return have > 0 || c.shows()
			})
		}
		if have > 0 && o.habit.found(have, most) {
			return true
		}
		if n == sleepReads {
			begin := c.engine.BeginWatch
			if have > 0 {
				begin = c.engine.BeginWatchEarly
			}
			c.watch(begin)
			return have > 0
		}
		if c.tryWatch(have == 0) {
			return have > 0
		}
	}
}

// read reads the packets that have arrived, and returns the number of completions. If the
// application can poll them all at once, the descriptor does not show their event yet. waits is
// that of Engine.Collect.
func (o *cqObject) read(most int, waits bool) (have int) {
	e, c := o.event, o.event.channel
	c.mu.Lock()
	since := e.hidden
	shown := e.count > 0 && since == 0
	c.taking++
	c.collectLocked(waits)
	have = o.verbs.Len()
	if e.count == 1 && !shown && (have > 0 || since != 0) {
		e.hideLocked(since)
		c.mu.Unlock()
		all := o.verbs.AwaitNext(most)
		c.mu.Lock()
		if !all {
			e.unhideLocked()
		}
	}
	c.taking--
	c.showLocked()
	c.mu.Unlock()
	return have
}

func (o *cqObject) destroy() error {
	err := o.verbs.Destroy()
	if err == nil {
		o.ctx.cookies.Delete(o.verbs)
		if o.event != nil && o.ctx.ownEvent(o.event) {
			o.event.close()
		}
	}
	return err
}

// ownEvent returns true to one of the callers that destroy a queue and its context. That caller
// closes the events of the queue.
func (o *ctxObject) ownEvent(e *cqEvent) bool {
	_, mine := o.events.LoadAndDelete(e)
	return mine
}
