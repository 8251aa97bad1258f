//go:build cabi

package main

// #include "engine.h"
import "C"

import (
	"syscall"

	"verbena/ib"
	"verbena/verbs"
)

// qpInit reads what a queue pair is to be made from.
//
// Errors: EINVAL for a handle that names nothing.
func qpInit(init *C.struct_vb_qp_init) (p *pdObject, a verbs.QPInitAttr, err error) {
	a = verbs.QPInitAttr{Type: ib.QPType(small(uint32(init._type))), Cap: qpCap(&init.cap), SignalAll: init.sq_sig_all != 0}
	if p = pds.get(handle(init.pd)); p == nil {
		return nil, a, noObject("PD")
	}
	for _, q := range []struct {
		h  C.vb_handle
		to **verbs.CQ
	}{{init.send_cq, &a.SendCQ}, {init.recv_cq, &a.RecvCQ}} {
		o := cqs.get(handle(q.h))
		if o == nil {
			return nil, a, noObject("CQ")
		}
		*q.to = o.verbs
	}
	if init.srq != 0 {
		s := srqs.get(handle(init.srq))
		if s == nil {
			return nil, a, noObject("SRQ")
		}
		a.SRQ = s.verbs
	}
	return p, a, nil
}

//export vb_qp_create
func vb_qp_create(init *C.struct_vb_qp_init, qp *C.vb_handle, num *C.uint32_t) C.int {
	const call = "ibv_create_qp"
	p, a, err := qpInit(init)
	if err != nil {
		return C.int(errnoOf(call, err))
	}
	q, err := p.verbs.CreateQP(&a)
	if err == nil {
		var h handle
		if h, err = newQP(p.ctx, q, uint64(init.cookie)); err == nil {
			_, made := q.Query()
			init.cap = cCap(made.Cap)
			*qp, *num = C.vb_handle(h), C.uint32_t(q.QPN())
			return 0
		}
		q.Destroy()
	}
	return C.int(errnoOf(call, err))
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
	err := o.verbs.Destroy()
	if err == nil {
		forgetQP(handle(qp))
	}
	return C.int(errnoOf("ibv_destroy_qp", err))
}

//export vb_xrcd_open
func vb_xrcd_open(ctx C.vb_handle, fd, oflags C.int, xrcd *C.vb_handle) C.int {
	return C.int(errnoOf("ibv_open_xrcd", syscall.EOPNOTSUPP))
}

//export vb_xrcd_close
func vb_xrcd_close(xrcd C.vb_handle) C.int {
	return C.int(errnoOf("ibv_close_xrcd", noObject("XRCD")))
}

//export vb_qp_open
func vb_qp_open(xrcd C.vb_handle, num C.uint32_t, cookie C.vb_cookie, qp *C.vb_handle) C.int {
	return C.int(errnoOf("ibv_open_qp", syscall.EOPNOTSUPP))
}
