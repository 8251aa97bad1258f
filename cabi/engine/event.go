//go:build cabi

package main

// #include "engine.h"
import "C"

import (
	"context"
	"unsafe"
)

// passEvents writes the context's asynchronous events to a descriptor of the
// front until the context is closed. Those that do not fit wait in verbs, which
// keeps a bounded number.
func (o *ctxObject) passEvents(fd int) {
	defer close(o.passed)
	nonblocking(fd)
	for {
		e, err := o.verbs.AsyncEvent(context.Background())
		if err != nil {
			return
		}
		var object any
		switch {
		case e.QP != nil:
			object = e.QP
		case e.CQ != nil:
			object = e.CQ
		case e.SRQ != nil:
			object = e.SRQ
		}
		cookie, ok := o.cookies.Load(object)
		if !ok {
			continue // of an object that is gone
		}
		r := C.struct_vb_async_event{_type: C.uint32_t(e.Type), object: C.vb_cookie(cookie.(uint64))}
		record := unsafe.Slice((*byte)(unsafe.Pointer(&r)), unsafe.Sizeof(r))
		for !o.closing.Load() && !writeRecord(fd, record) {
			waitWritable(fd)
		}
	}
}
