//go:build cabi

package main

// #include "engine.h"
import "C"

import (
	"unsafe"

	"verbena/internal/device"
	"verbena/verbs"
)

// maxInline is the most inline data that a queue pair can be made for.
const maxInline = device.MaxInline

// scratch is what the work request being posted is read into. It belongs to
// whoever has the queue pair's lock, from Begin to Ring.
type scratch struct {
	send   verbs.SendWR
	recv   verbs.RecvWR
	bind   verbs.BindWR
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
	if err := o.BeginSend(); err != nil {
		return wr, err
	}
	for t := o.verbs.Type(); wr != nil; wr = wr.next {
		if err = wr.take(&o.send, t, &o.inline, &o.bind); err != nil {
			break
		}
		if err = o.Send(&o.send); err != nil {
			break
		}
	}
	o.Ring()
	return wr, err
}

//export vb_qp_post_recv
func vb_qp_post_recv(qp C.vb_handle, list *C.struct_ibv_recv_wr, bad **C.struct_ibv_recv_wr) C.int {
	wr, err := recvList(list), error(nil)
	if o := qps.get(handle(qp)); o != nil {
		wr, err = o.postRecv(wr)
	} else {
		err = noObject("QP")
	}
	return refuseRecv("ibv_post_recv", bad, wr, err)
}

// postRecv is postSend of receives.
func (o *qpObject) postRecv(wr *recvWR) (bad *recvWR, err error) {
	if err := o.BeginRecv(); err != nil {
		return wr, err
	}
	for ; wr != nil; wr = wr.next {
		if err = wr.take(&o.recv); err != nil {
			break
		}
		if err = o.Recv(&o.recv); err != nil {
			break
		}
	}
	o.RingReceives()
	return wr, err
}

// refuseRecv returns the errno of err, 0 for none, and names the work request.
func refuseRecv(call string, bad **C.struct_ibv_recv_wr, wr *recvWR, err error) C.int {
	if err != nil && bad != nil {
		*bad = (*C.struct_ibv_recv_wr)(unsafe.Pointer(wr))
	}
	return C.int(errnoOf(call, err))
}
