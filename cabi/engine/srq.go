// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

// #include "engine.h"
import "C"

import (
	"verbena/ib"
	"verbena/internal/core"
)

func srqCreate(init *C.struct_vb_srq_init, srq *C.vb_handle, num *C.uint32_t) error {
	p := pds.get(handle(init.pd))
	if p == nil {
		return pds.none()
	}
	s, err := createSRQ(p, init)
	if err != nil {
		return err
	}
	if err = srqs.give(srq, &srqObject{ctx: p.ctx, verbs: s}, s.Destroy); err == nil {
		p.ctx.cookies.Store(s, uint64(init.cookie))
		putSRQAttr(&init.attr, s.Query())
		*num = C.uint32_t(s.Num())
	}
	return err
}

func createSRQ(p *pdObject, init *C.struct_vb_srq_init) (*core.SRQ, error) {
	attr := srqAttr(&init.attr)
	posted, err := receives(&init.recv, attr.MaxWR, attr.MaxSGE)
	if err != nil {
		return nil, err
	}
	if init.cq == 0 {
		return p.verbs.CreateSRQ(attr, posted)
	}
	cq, err := cqOf(init.cq)
	if err != nil {
		return nil, err
	}
	if init.xrcd == 0 {
		tm := ib.TMAttr{MaxNumTags: uint32(init.max_num_tags), MaxOps: uint32(init.max_ops)}
		return p.verbs.CreateTagSRQ(attr, tm, cq, posted)
	}
	x := xrcds.get(handle(init.xrcd))
	if x == nil {
		return nil, xrcds.none()
	}
	return p.verbs.CreateXRCSRQ(attr, x.verbs, cq, posted)
}

func srqAttr(a *C.struct_ibv_srq_attr) ib.SRQAttr {
	return ib.SRQAttr{
		MaxWR: uint32(a.max_wr), MaxSGE: uint32(a.max_sge), SRQLimit: uint32(a.srq_limit),
	}
}

func putSRQAttr(to *C.struct_ibv_srq_attr, a ib.SRQAttr) {
	*to = C.struct_ibv_srq_attr{
		max_wr: C.uint32_t(a.MaxWR), max_sge: C.uint32_t(a.MaxSGE),
		srq_limit: C.uint32_t(a.SRQLimit),
	}
}

func (o *srqObject) modify(attr *C.struct_ibv_srq_attr, mask C.int, slots *C.struct_ibv_sge,
	slotMask C.uint64_t) error {
	var m ib.SRQAttrMask
	if mask&C.IBV_SRQ_MAX_WR != 0 {
		m |= ib.SRQMaxWR
	}
	if mask&C.IBV_SRQ_LIMIT != 0 {
		m |= ib.SRQLimit
	}
	if mask&^(C.IBV_SRQ_MAX_WR|C.IBV_SRQ_LIMIT) != 0 {
		return invalid("mask %#x", int(mask))
	}
	return o.verbs.ModifyIn(srqAttr(attr), m, recvSlots(slots, slotMask, o.verbs.Query().MaxSGE))
}

func (o *srqObject) query(attr *C.struct_ibv_srq_attr) error {
	putSRQAttr(attr, o.verbs.Query())
	return nil
}

func (o *srqObject) destroy() error {
	err := o.verbs.Destroy()
	if err == nil {
		o.ctx.cookies.Delete(o.verbs)
	}
	return err
}
