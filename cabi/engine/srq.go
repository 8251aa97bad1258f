//go:build cabi

package main

// #include "engine.h"
import "C"

import (
	"verbena/ib"
	"verbena/verbs"
)

//export vb_srq_create
func vb_srq_create(init *C.struct_vb_srq_init, srq *C.vb_handle, num *C.uint32_t) C.int {
	const call = "ibv_create_srq"
	p := pds.get(handle(init.pd))
	if p == nil {
		return C.int(errnoOf(call, noObject("PD")))
	}
	s, err := createSRQ(p, init)
	if err == nil {
		var h handle
		if h, err = srqs.put(&srqObject{ctx: p.ctx, verbs: s}); err == nil {
			p.ctx.cookies.Store(s, uint64(init.cookie))
			putSRQAttr(&init.attr, s.Query())
			*srq, *num = C.vb_handle(h), C.uint32_t(s.Num())
			return 0
		}
		s.Destroy()
	}
	return C.int(errnoOf(call, err))
}

func createSRQ(p *pdObject, init *C.struct_vb_srq_init) (*verbs.SRQ, error) {
	if init.xrcd == 0 {
		return p.verbs.CreateSRQ(srqAttr(&init.attr))
	}
	x := xrcds.get(handle(init.xrcd))
	if x == nil {
		return nil, noObject("XRCD")
	}
	q, err := cqOf(init.cq)
	if err != nil {
		return nil, err
	}
	return p.verbs.CreateXRCSRQ(srqAttr(&init.attr), x.verbs, q)
}

func srqAttr(a *C.struct_ibv_srq_attr) ib.SRQAttr {
	return ib.SRQAttr{MaxWR: uint32(a.max_wr), MaxSGE: uint32(a.max_sge), SRQLimit: uint32(a.srq_limit)}
}

func putSRQAttr(to *C.struct_ibv_srq_attr, a ib.SRQAttr) {
	*to = C.struct_ibv_srq_attr{max_wr: C.uint32_t(a.MaxWR), max_sge: C.uint32_t(a.MaxSGE), srq_limit: C.uint32_t(a.SRQLimit)}
}

//export vb_srq_modify
func vb_srq_modify(srq C.vb_handle, attr *C.struct_ibv_srq_attr, mask C.int) C.int {
	o := srqs.get(handle(srq))
	if o == nil {
		return C.int(errnoOf("ibv_modify_srq", noObject("SRQ")))
	}
	var m ib.SRQAttrMask
	if mask&C.IBV_SRQ_MAX_WR != 0 {
		m |= ib.SRQMaxWR
	}
	if mask&C.IBV_SRQ_LIMIT != 0 {
		m |= ib.SRQLimit
	}
	if mask&^(C.IBV_SRQ_MAX_WR|C.IBV_SRQ_LIMIT) != 0 {
		return C.int(errnoOf("ibv_modify_srq", invalid("mask %#x", int(mask))))
	}
	return C.int(errnoOf("ibv_modify_srq", o.verbs.Modify(srqAttr(attr), m)))
}

//export vb_srq_query
func vb_srq_query(srq C.vb_handle, attr *C.struct_ibv_srq_attr) C.int {
	o := srqs.get(handle(srq))
	if o == nil {
		return C.int(errnoOf("ibv_query_srq", noObject("SRQ")))
	}
	putSRQAttr(attr, o.verbs.Query())
	return 0
}

//export vb_srq_post_recv
func vb_srq_post_recv(srq C.vb_handle, list *C.struct_ibv_recv_wr, bad **C.struct_ibv_recv_wr) C.int {
	const call = "ibv_post_srq_recv"
	o := srqs.get(handle(srq))
	if o == nil {
		return refuseRecv(call, bad, recvList(list), noObject("SRQ"))
	}
	for wr := recvList(list); wr != nil; wr = wr.next {
		to := verbs.RecvWR{ID: wr.id}
		err := wr.take(&to)
		if err == nil {
			_, err = o.verbs.PostRecv(to)
		}
		if err != nil {
			return refuseRecv(call, bad, wr, err)
		}
	}
	return 0
}

//export vb_srq_destroy
func vb_srq_destroy(srq C.vb_handle) C.int {
	o := srqs.get(handle(srq))
	if o == nil {
		return C.int(errnoOf("ibv_destroy_srq", noObject("SRQ")))
	}
	err := o.verbs.Destroy()
	if err == nil {
		srqs.remove(handle(srq))
		o.ctx.cookies.Delete(o.verbs)
	}
	return C.int(errnoOf("ibv_destroy_srq", err))
}
