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
// Errors: EINVAL for a handle that names nothing; those of verbs.
func createQP(init *C.struct_vb_qp_init) (*ctxObject, *core.QP, error) {
	a := core.QPInitAttr{Type: ib.QPType(small(uint32(init._type))), Cap: qpCap(&init.cap), SignalAll: init.sq_sig_all != 0}
	if a.Type == ib.QPTypeXRCRecv {
		x := xrcds.get(handle(init.xrcd))
		if x == nil {
			return nil, nil, noObject("XRCD")
		}
		q, err := x.verbs.CreateQP(&a)
		return x.ctx, q, err
	}
	p := pds.get(handle(init.pd))
	if p == nil {
		return nil, nil, noObject("PD")
	}
	var err error
	if a.SendCQ, err = cqOf(init.send_cq); err != nil {
		return nil, nil, err
	}
	if a.Type != ib.QPTypeXRCSend { // which has no receives
		if a.RecvCQ, err = cqOf(init.recv_cq); err != nil {
			return nil, nil, err
		}
		if init.srq != 0 {
			s := srqs.get(handle(init.srq))
			if s == nil {
				return nil, nil, noObject("SRQ")
			}
			a.SRQ = s.verbs
		} else if posted, err := receives(&init.recv, a.Cap.MaxRecvWR, a.Cap.MaxRecvSGE); err != nil {
			return nil, nil, err
		} else if posted != nil {
			a.Outside = posted
		}
	}
	q, err := p.verbs.CreateQP(&a)
	return p.ctx, q, err
}

func cqOf(h C.vb_handle) (*core.CQ, error) {
	o := cqs.get(handle(h))
	if o == nil {
		return nil, noObject("CQ")
	}
	return o.verbs, nil
}

//export vb_qp_create
func vb_qp_create(init *C.struct_vb_qp_init, qp *C.vb_handle, num *C.uint32_t) C.int {
	const call = "ibv_create_qp"
	ctx, q, err := createQP(init)
	if err == nil {
		_, made := q.Query()
		if err = giveQP(ctx, q, init.cookie, qp); err == nil {
			init.cap = cCap(made.Cap)
			*num = C.uint32_t(q.QPN())
		}
	}
	return C.int(errnoOf(call, err))
}

// giveQP gives a new queue pair a handle, or destroys it.
func giveQP(ctx *ctxObject, q *core.QP, cookie C.vb_cookie, qp *C.vb_handle) error {
	h, err := newQP(ctx, q, uint64(cookie))
	if err != nil {
		q.Destroy()
		return err
	}
	*qp = C.vb_handle(h)
	return nil
}

//export vb_qp_modify
func vb_qp_modify(qp C.vb_handle, attr *C.struct_ibv_qp_attr, mask C.int) C.int {
	o := qps.get(handle(qp))
	if o == nil {
		return C.int(errnoOf("ibv_modify_qp", noObject("QP")))
	}
	m, err := qpMask(mask)
	if err == nil {
		a := qpAttr(attr)
		err = o.verbs.Modify(&a, m)
	}
	return C.int(errnoOf("ibv_modify_qp", err))
}

//export vb_qp_query
func vb_qp_query(qp C.vb_handle, attr *C.struct_ibv_qp_attr, init *C.struct_ibv_qp_init_attr) C.int {
	o := qps.get(handle(qp))
	if o == nil {
		return C.int(errnoOf("ibv_query_qp", noObject("QP")))
	}
	a, i := o.verbs.Query()
	putQPAttr(attr, &a)
	if init != nil {
		init.cap, init.sq_sig_all = cCap(i.Cap), C.int(flag(i.SignalAll))
	}
	return 0
}

//export vb_qp_multicast
func vb_qp_multicast(qp C.vb_handle, gid *C.union_ibv_gid, attach C.int) C.int {
	o := qps.get(handle(qp))
	if o == nil {
		return C.int(errnoOf("multicast", noObject("QP")))
	}
	if attach != 0 {
		return C.int(errnoOf("ibv_attach_mcast", o.verbs.AttachMulticast(ib.GID(*gid))))
	}
	return C.int(errnoOf("ibv_detach_mcast", o.verbs.DetachMulticast(ib.GID(*gid))))
}

//export vb_qp_destroy
func vb_qp_destroy(qp C.vb_handle) C.int {
	o := qps.get(handle(qp))
	if o == nil {
		return C.int(errnoOf("ibv_destroy_qp", noObject("QP")))
	}
	err := o.destroy()
	if err == nil {
		forgetQP(handle(qp))
	}
	return C.int(errnoOf("ibv_destroy_qp", err))
}
