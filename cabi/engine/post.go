// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

// #include "engine.h"
import "C"

import (
	"unsafe"

	"verbena/internal/core"
	"verbena/internal/device"
)

// maxInline bounds the inline data of a queue pair.
const maxInline = device.MaxInline

// scratch has room to decode one work request. It belongs to the holder of the queue pair's lock,
// from BeginSend to SubmitSends.
type scratch struct {
	send   core.SendWR
	bind   core.BindWR
	inline inlineBytes
}

//export vb_qp_post_send
func vb_qp_post_send(qp C.vb_handle, list *C.struct_ibv_send_wr, bad **C.struct_ibv_send_wr) C.int {
	wr, err := sendList(list), error(nil)
	if o := qps.get(handle(qp)); o != nil {
		wr, err = o.postSend(wr)
	} else {
		err = qps.none()
	}
	if err == nil {
		return 0
	}
	if bad != nil {
		*bad = (*C.struct_ibv_send_wr)(unsafe.Pointer(wr))
	}
	return C.int(errnoOf("ibv_post_send", err))
}

// postSend posts a list until a work request is refused, which it returns.
func (o *qpObject) postSend(wr *sendWR) (bad *sendWR, err error) {
	if err := o.verbs.BeginSend(); err != nil {
		return wr, err
	}
	for t := o.verbs.Type(); wr != nil; wr = (*sendWR)(wr.Next) {
		if err = wr.take(&o.send, t, &o.inline, &o.bind); err != nil {
			break
		}
		if err = o.verbs.Send(&o.send); err != nil {
			break
		}
	}
	o.verbs.SubmitSends()
	return wr, err
}

func (o *qpObject) recvsPosted() error {
	o.verbs.ReceivesPosted()
	return nil
}
