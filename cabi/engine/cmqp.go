// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

// #include "engine.h"
import "C"

import (
	"net/netip"
	"syscall"

	"verbena/ib"
	"verbena/rdmacm"
	"verbena/verbs"
)

//export vb_cm_qp_create
func vb_cm_qp_create(id C.vb_handle, init *C.struct_vb_qp_init, qp *C.vb_handle, num *C.uint32_t) C.int {
	return withID("rdma_create_qp", id, func(o *cmID) error {
		ctx, q, err := createQP(init)
		if err != nil {
			return err
		}
		if err = o.rdma.UseQP((*verbs.QP)(q)); err == nil {
			var h handle
			if h, err = newQP(ctx, q, uint64(init.cookie)); err == nil {
				cmMu.Lock()
				o.qp = h
				cmMu.Unlock()
				_, made := q.Query()
				init.cap = cCap(made.Cap)
				*qp, *num = C.vb_handle(h), C.uint32_t(q.QPN())
				return nil
			}
			o.rdma.ReleaseQP()
		}
		_ = q.Destroy() // it was just made; the error that counts is the first
		return err
	})
}

//export vb_cm_qp_destroy
func vb_cm_qp_destroy(id C.vb_handle) C.int {
	return withID("rdma_destroy_qp", id, func(o *cmID) error {
		cmMu.Lock()
		h := o.qp
		o.qp = 0
		cmMu.Unlock()
		q := o.rdma.ReleaseQP()
		if q == nil {
			return syscall.EINVAL
		}
		err := q.Destroy()
		forgetQP(h)
		return err
	})
}

//export vb_cm_init_qp_attr
func vb_cm_init_qp_attr(id C.vb_handle, attr *C.struct_ibv_qp_attr, mask *C.int) C.int {
	return withID("rdma_init_qp_attr", id, func(o *cmID) error {
		t := o.driven()
		if q := o.rdma.QP(); q != nil {
			t = q.Type()
		}
		a, m, err := o.rdma.QPAttr(ib.QPState(small(uint32(attr.qp_state))), t)
		if err == nil {
			putQPAttr(attr, &a)
			*mask = cMask(m)
		}
		return err
	})
}

//export vb_cm_join
func vb_cm_join(id C.vb_handle, addr *C.struct_sockaddr, flags C.uint64_t, context C.vb_cookie) C.int {
	return withID("rdma_join_multicast", id, func(o *cmID) error {
		a, err := addrOf(addr)
		if err != nil {
			return err
		}
		if flags >= C.RDMA_MC_JOIN_FLAG_RESERVED {
			return invalid("join flags %#x", uint64(flags))
		}
		group := a.Addr().Unmap().WithZone("")
		cmMu.Lock()
		_, joined := o.groups[group]
		if !joined {
			o.groups[group] = uint64(context)
		}
		cmMu.Unlock()
		if joined {
			return syscall.EADDRINUSE
		}
		if err = o.rdma.JoinMulticast(group, rdmacm.JoinFlag(flags)); err != nil {
			o.forgetGroup(group)
		}
		return err
	})
}

// forgetGroup forgets what the front calls a join that is over.
func (o *cmID) forgetGroup(group netip.Addr) {
	cmMu.Lock()
	delete(o.groups, group)
	cmMu.Unlock()
}

//export vb_cm_leave
func vb_cm_leave(id C.vb_handle, addr *C.struct_sockaddr) C.int {
	return withID("rdma_leave_multicast", id, func(o *cmID) error {
		a, err := addrOf(addr)
		if err != nil {
			return err
		}
		group := a.Addr().Unmap().WithZone("")
		if err = o.rdma.LeaveMulticast(group); err == nil {
			o.forgetGroup(group)
		}
		return err
	})
}
