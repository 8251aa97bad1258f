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

// maxInline is the most inline data that a queue pair can be made for.
const maxInline = device.MaxInline

// scratch is what the work request being posted is read into. It belongs to
// whoever has the queue pair's lock, from Begin to Ring.
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
		err = noObject("QP")
	}
	if err == nil {
		return 0
	}
	if bad != nil {
		*bad = (*C.struct_ibv_send_wr)(unsafe.Pointer(wr))
	}
	return C.int(errnoOf("ibv_post_send", err))
}

// postSend posts a list up to the first work request that is refused, which it
// returns.
func (o *qpObject) postSend(wr *sendWR) (bad *sendWR, err error) {
	if err := o.verbs.BeginSend(); err != nil {
		return wr, err
	}
	for t := o.verbs.Type(); wr != nil; wr = wr.next {
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

//export vb_qp_recvs_posted
func vb_qp_recvs_posted(qp C.vb_handle) C.int {
	o := qps.get(handle(qp))
	if o == nil {
		return C.int(errnoOf("ibv_post_recv", noObject("QP")))
	}
	o.verbs.ReceivesPosted()
	return 0
}
