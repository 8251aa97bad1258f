// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

// #include "engine.h"
import "C"

import (
	"unsafe"

	"verbena/ib"
	"verbena/internal/device"
	"verbena/internal/queue"
)

// slotsOf returns the slots of a ring as Go knows them; queue's tests hold
// their layouts equal. The number is checked before the pointer is used.
func slotsOf(slots unsafe.Pointer, mask uint64) []ib.WC {
	if slots == nil || mask >= 2*device.MaxCQE {
		return nil
	}
	return unsafe.Slice((*ib.WC)(slots), int(mask)+1)
}

//export vb_cq_create_over
func vb_cq_create_over(ctx C.vb_handle, depth C.int, ring, slots unsafe.Pointer, mask C.uint64_t, fd C.int, cookie C.vb_cookie, cq *C.vb_handle) C.int {
	const call = "ibv_create_cq"
	o := contexts.get(handle(ctx))
	if o == nil {
		return C.int(errnoOf(call, noObject("context")))
	}
	q := &cqObject{ctx: o}
	var notify func()
	if fd >= 0 {
		q.event = newCQEvent(int(fd), uint64(cookie))
		notify = q.event.put
	}
	made, err := o.verbs.CreateCQIn((*queue.Ring)(ring), slotsOf(slots, uint64(mask)), int(depth), notify)
	if err == nil {
		q.verbs = made
		var h handle
		if h, err = cqs.put(q); err == nil {
			o.cookies.Store(q.verbs, uint64(cookie))
			if q.event != nil {
				o.events.Store(q.event, true)
			}
			*cq = C.vb_handle(h)
			return 0
		}
		q.verbs.Destroy()
	}
	if q.event != nil {
		q.event.close()
	}
	return C.int(errnoOf(call, err))
}

//export vb_cq_resize
func vb_cq_resize(cq C.vb_handle, depth C.int, slots *C.struct_vb_wc, mask C.uint64_t) C.int {
	o := cqs.get(handle(cq))
	if o == nil {
		return C.int(errnoOf("ibv_resize_cq", noObject("CQ")))
	}
	return C.int(errnoOf("ibv_resize_cq", o.verbs.ResizeIn(int(depth), slotsOf(unsafe.Pointer(slots), uint64(mask)))))
}

//export vb_cq_arm
func vb_cq_arm(cq C.vb_handle, solicitedOnly C.int) C.int {
	o := cqs.get(handle(cq))
	if o == nil {
		return C.int(errnoOf("ibv_req_notify_cq", noObject("CQ")))
	}
	return C.int(errnoOf("ibv_req_notify_cq", o.verbs.RequestNotify(solicitedOnly != 0)))
}

//export vb_cq_destroy
func vb_cq_destroy(cq C.vb_handle) C.int {
	o := cqs.get(handle(cq))
	if o == nil {
		return C.int(errnoOf("ibv_destroy_cq", noObject("CQ")))
	}
	err := o.verbs.Destroy()
	if err == nil {
		cqs.remove(handle(cq))
		o.ctx.cookies.Delete(o.verbs)
		if o.event != nil && o.ctx.ownEvent(o.event) {
			o.event.close()
		}
	}
	return C.int(errnoOf("ibv_destroy_cq", err))
}

// ownEvent tells one caller that it is to close the events of a queue: whoever
// destroys the queue or its context.
func (o *ctxObject) ownEvent(e *cqEvent) bool {
	_, mine := o.events.LoadAndDelete(e)
	return mine
}
