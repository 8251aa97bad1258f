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
	const call = "ibv_post_send"
	wr := sendList(list)
	o := qps.get(handle(qp))
	if o == nil {
		return refuseSend(call, bad, wr, noObject("QP"))
	}
	if err := o.BeginSend(); err != nil {
		return refuseSend(call, bad, wr, err)
	}
	var err error
	for ; wr != nil; wr = wr.next {
		if err = wr.take(&o.send, o.verbs.Type(), &o.inline, &o.bind); err != nil {
			break
		}
		if err = o.Send(&o.send); err != nil {
			break
		}
	}
	o.Ring()
	if err != nil {
		return refuseSend(call, bad, wr, err)
	}
	return 0
}

func refuseSend(call string, bad **C.struct_ibv_send_wr, wr *sendWR, err error) C.int {
	if bad != nil {
		*bad = (*C.struct_ibv_send_wr)(unsafe.Pointer(wr))
	}
	return C.int(errnoOf(call, err))
}

//export vb_qp_post_recv
func vb_qp_post_recv(qp C.vb_handle, list *C.struct_ibv_recv_wr, bad **C.struct_ibv_recv_wr) C.int {
	const call = "ibv_post_recv"
	wr := recvList(list)
	o := qps.get(handle(qp))
	if o == nil {
		return refuseRecv(call, bad, wr, noObject("QP"))
	}
	if err := o.BeginRecv(); err != nil {
		return refuseRecv(call, bad, wr, err)
	}
	var err error
	for ; wr != nil; wr = wr.next {
		if err = wr.take(&o.recv); err != nil {
			break
		}
		if err = o.Recv(&o.recv); err != nil {
			break
		}
	}
	o.RingReceives()
	if err != nil {
		return refuseRecv(call, bad, wr, err)
	}
	return 0
}

func refuseRecv(call string, bad **C.struct_ibv_recv_wr, wr *recvWR, err error) C.int {
	if bad != nil {
		*bad = (*C.struct_ibv_recv_wr)(unsafe.Pointer(wr))
	}
	return C.int(errnoOf(call, err))
}
