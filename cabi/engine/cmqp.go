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

func (o *cmID) qpCreate(init *C.struct_vb_qp_init, qp *C.vb_handle, num *C.uint32_t) error {
	ctx, q, err := createQP(init)
	if err != nil {
		return err
	}
	if err = o.rdma.UseQP((*verbs.QP)(q)); err != nil {
		_ = q.Destroy() // it was just made; the error that counts is the first
		return err
	}
	err = giveNewQP(init, ctx, q, func() error {
		o.rdma.ReleaseQP()
		return q.Destroy()
	}, qp, num)
	if err == nil {
		cmMu.Lock()
		o.qp = handle(*qp)
		cmMu.Unlock()
	}
	return err
}

func (o *cmID) qpDestroy() error {
	cmMu.Lock()
	h := o.qp
	o.qp = 0
	cmMu.Unlock()
	q := o.rdma.ReleaseQP()
	if q == nil {
		return syscall.EINVAL
	}
	err := q.Destroy()
	if o := qps.take(h); o != nil {
		o.forget()
	}
	return err
}

func (o *cmID) initQPAttr(attr *C.struct_ibv_qp_attr, mask *C.int) error {
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
}

func (o *cmID) join(addr *C.struct_sockaddr, flags C.uint64_t, context C.vb_cookie) error {
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
}

// forgetGroup forgets the cookie of a join that has ended.
func (o *cmID) forgetGroup(group netip.Addr) {
	cmMu.Lock()
	delete(o.groups, group)
	cmMu.Unlock()
}

func (o *cmID) leave(addr *C.struct_sockaddr) error {
	a, err := addrOf(addr)
	if err != nil {
		return err
	}
	group := a.Addr().Unmap().WithZone("")
	if err = o.rdma.LeaveMulticast(group); err == nil {
		o.forgetGroup(group)
	}
	return err
}
