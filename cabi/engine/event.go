// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

// #include "engine.h"
import "C"

import (
	"context"
	"unsafe"

	"verbena/internal/core"
)

// passEvents writes the asynchronous events of the context to a descriptor of the front until the
// context is closed. Events that do not fit wait in verbs, in a bounded queue.
func (o *ctxObject) passEvents(fd int) {
	defer close(o.passed)
	nonblocking(fd)
	for {
		e, err := o.verbs.AsyncEvent(context.Background())
		if err != nil {
			return
		}
		r := C.struct_vb_async_event{_type: C.uint32_t(e.Type), port: C.uint32_t(e.Port)}
		if object := objectOf(&e); object != nil {
			cookie, ok := o.cookies.Load(object)
			if !ok {
				continue // its object is destroyed
			}
			r.object = C.vb_cookie(cookie.(uint64))
		}
		record := unsafe.Slice((*byte)(unsafe.Pointer(&r)), unsafe.Sizeof(r))
		for !o.closing.Load() && !writeRecord(fd, record) {
			waitWritable(fd)
		}
	}
}

// objectOf returns the object that an event is about, nil for those of a port or the device.
func objectOf(e *core.AsyncEvent) any {
	switch {
	case e.QP != nil:
		return e.QP
	case e.CQ != nil:
		return e.CQ
	case e.SRQ != nil:
		return e.SRQ
	}
	return nil
}
