// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

// #include "engine.h"
import "C"

import (
	"verbena/ib"
	"verbena/internal/core"
)

// createQP makes a queue pair. It writes nothing to init.
//
// Errors: EINVAL for a handle that names nothing, and those of verbs.
func createQP(init *C.struct_vb_qp_init) (*ctxObject, *core.QP, error) {
	a := core.QPInitAttr{
		Type: ib.QPType(small(uint32(init._type))), Cap: qpCap(&init.cap),
		SignalAll: init.sq_sig_all != 0,
	}
	if a.Type == ib.QPTypeXRCRecv {
		x := xrcds.get(handle(init.xrcd))
		if x == nil {
			return nil, nil, xrcds.none()
		}
		q, err := x.verbs.CreateQP(&a)
		return x.ctx, q, err
	}
	p := pds.get(handle(init.pd))
	if p == nil {
		return nil, nil, pds.none()
	}
	var err error
	if a.SendCQ, err = cqOf(init.send_cq); err != nil {
		return nil, nil, err
	}
	if a.Type != ib.QPTypeXRCSend { // the type has no receives
		if a.RecvCQ, err = cqOf(init.recv_cq); err != nil {
			return nil, nil, err
		}
		if init.srq != 0 {
			s := srqs.get(handle(init.srq))
			if s == nil {
				return nil, nil, srqs.none()
			}
			a.SRQ = s.verbs
		} else {
			posted, err := receives(&init.recv, a.Cap.MaxRecvWR, a.Cap.MaxRecvSGE)
			if err != nil {
				return nil, nil, err
			}
			if posted != nil {
				a.Outside = posted
			}
		}
	}
	q, err := p.verbs.CreateQP(&a)
	return p.ctx, q, err
}

func cqOf(h C.vb_handle) (*core.CQ, error) {
	o := cqs.get(handle(h))
	if o == nil {
		return nil, cqs.none()
	}
	return o.verbs, nil
}

func qpCreate(init *C.struct_vb_qp_init, qp *C.vb_handle, num *C.uint32_t) error {
	ctx, q, err := createQP(init)
	if err != nil {
		return err
	}
	return giveNewQP(init, ctx, q, q.Destroy, qp, num)
}

// giveNewQP gives a new queue pair a handle, as giveQP does, and writes its capabilities to init.
func giveNewQP(init *C.struct_vb_qp_init, ctx *ctxObject, q *core.QP, destroy func() error,
	qp *C.vb_handle, num *C.uint32_t) error {
	_, made := q.Query()
	err := giveQP(qp, ctx, q, init.cookie, destroy)
	if err == nil {
		init.cap, *num = cCap(made.Cap), C.uint32_t(q.QPN())
	}
	return err
}

func (o *qpObject) modify(attr *C.struct_ibv_qp_attr, mask C.int) error {
	m, err := qpMask(mask)
	if err != nil {
		return err
	}
	a := qpAttr(attr)
	return o.verbs.Modify(&a, m)
}

func (o *qpObject) limitRate(attr *C.struct_ibv_qp_rate_limit_attr) error {
	return o.verbs.Modify(&ib.QPAttr{RateLimit: uint32(attr.rate_limit),
		RateBurst: uint32(attr.max_burst_sz), RatePacket: uint16(attr.typical_pkt_sz)},
		ib.QPRateLimit)
}

func (o *qpObject) query(attr *C.struct_ibv_qp_attr, init *C.struct_ibv_qp_init_attr) error {
	a, i := o.verbs.Query()
	putQPAttr(attr, &a)
	if init != nil {
		init.cap, init.sq_sig_all = cCap(i.Cap), C.int(flag(i.SignalAll))
	}
	return nil
}

func (o *qpObject) attachMcast(gid *C.union_ibv_gid) error {
	return o.verbs.AttachMulticast(ib.GID(*gid))
}

func (o *qpObject) detachMcast(gid *C.union_ibv_gid) error {
	return o.verbs.DetachMulticast(ib.GID(*gid))
}
