// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

// #include "engine.h"
import "C"

import (
	"verbena/ib"
	"verbena/internal/core"
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

func createSRQ(p *pdObject, init *C.struct_vb_srq_init) (*core.SRQ, error) {
	attr := srqAttr(&init.attr)
	posted, err := receives(&init.recv, attr.MaxWR, attr.MaxSGE)
	if err != nil {
		return nil, err
	}
	if init.xrcd == 0 {
		return p.verbs.CreateSRQ(attr, posted)
	}
	x := xrcds.get(handle(init.xrcd))
	if x == nil {
		return nil, noObject("XRCD")
	}
	cq, err := cqOf(init.cq)
	if err != nil {
		return nil, err
	}
	return p.verbs.CreateXRCSRQ(attr, x.verbs, cq, posted)
}

func srqAttr(a *C.struct_ibv_srq_attr) ib.SRQAttr {
	return ib.SRQAttr{MaxWR: uint32(a.max_wr), MaxSGE: uint32(a.max_sge), SRQLimit: uint32(a.srq_limit)}
}

func putSRQAttr(to *C.struct_ibv_srq_attr, a ib.SRQAttr) {
	*to = C.struct_ibv_srq_attr{max_wr: C.uint32_t(a.MaxWR), max_sge: C.uint32_t(a.MaxSGE), srq_limit: C.uint32_t(a.SRQLimit)}
}

//export vb_srq_modify
func vb_srq_modify(srq C.vb_handle, attr *C.struct_ibv_srq_attr, mask C.int, slots *C.struct_ibv_sge, slotMask C.uint64_t) C.int {
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
	room := recvSlots(slots, slotMask, o.verbs.Query().MaxSGE)
	return C.int(errnoOf("ibv_modify_srq", o.verbs.ModifyIn(srqAttr(attr), m, room)))
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
