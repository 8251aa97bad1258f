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
		if e.Port == 0 {
			cookie, ok := o.cookies.Load(objectOf(&e))
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

func objectOf(e *core.AsyncEvent) any {
	switch {
	case e.QP != nil:
		return e.QP
	case e.CQ != nil:
		return e.CQ
	}
	return e.SRQ
}
