// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

// #include "engine.h"
import "C"

import (
	"math"
	"sync"
	"unsafe"

	"verbena/ib"
	"verbena/internal/core"
)

//export vb_pd_alloc
func vb_pd_alloc(ctx C.vb_handle, pd *C.vb_handle) C.int {
	o := contexts.get(handle(ctx))
	if o == nil {
		return C.int(errnoOf("ibv_alloc_pd", noObject("context")))
	}
	p, err := o.verbs.AllocPD()
	if err == nil {
		var h handle
		if h, err = pds.put(&pdObject{ctx: o, verbs: p}); err == nil {
			*pd = C.vb_handle(h)
			return 0
		}
		p.Dealloc()
	}
	return C.int(errnoOf("ibv_alloc_pd", err))
}

//export vb_pd_free
func vb_pd_free(pd C.vb_handle) C.int {
	o := pds.get(handle(pd))
	if o == nil {
		return C.int(errnoOf("ibv_dealloc_pd", noObject("PD")))
	}
	err := o.verbs.Dealloc()
	if err == nil {
		pds.remove(handle(pd))
	}
	return C.int(errnoOf("ibv_dealloc_pd", err))
}

//export vb_mr_reg
func vb_mr_reg(pd C.vb_handle, addr unsafe.Pointer, length C.size_t, iova C.uint64_t, access C.uint, mr *C.vb_handle, lkey, rkey *C.uint32_t) C.int {
	o := pds.get(handle(pd))
	if o == nil {
		return C.int(errnoOf("ibv_reg_mr", noObject("PD")))
	}
	at, rights := uint64(iova), ib.Access(access)
	buf, err := memoryOf(addr, length, rights)
	if err != nil {
		return C.int(errnoOf("ibv_reg_mr", err))
	}
	if rights.Has(ib.AccessZeroBased) && at == uint64(uintptr(addr)) {
		at = 0 // ibv_reg_mr names no other
	}
	r, err := o.verbs.RegMRIOVA(buf, at, rights)
	if err == nil {
		var h handle
		m := &mrObject{ctx: o.ctx, verbs: r}
		m.rights.Store(uint32(rights))
		if h, err = mrs.put(m); err == nil {
			*mr, *lkey, *rkey = C.vb_handle(h), C.uint32_t(r.LKey()), C.uint32_t(r.RKey())
			return 0
		}
		r.Dereg()
	}
	return C.int(errnoOf("ibv_reg_mr", err))
}

//export vb_mr_rereg
func vb_mr_rereg(mr C.vb_handle, flags C.int, pd C.vb_handle, addr unsafe.Pointer, length C.size_t, access C.uint, lkey, rkey *C.uint32_t) C.int {
	o := mrs.get(handle(mr))
	if o == nil {
		return C.int(errnoOf("ibv_rereg_mr", noObject("MR")))
	}
	if flags <= 0 || flags&^C.IBV_REREG_MR_FLAGS_SUPPORTED != 0 {
		return C.int(errnoOf("ibv_rereg_mr", invalid("flags %#x", int(flags))))
	}
	var domain *core.PD
	if flags&C.IBV_REREG_MR_CHANGE_PD != 0 {
		p := pds.get(handle(pd))
		if p == nil {
			return C.int(errnoOf("ibv_rereg_mr", noObject("PD")))
		}
		domain = p.verbs
	}
	rights := ib.Access(o.rights.Load())
	if flags&C.IBV_REREG_MR_CHANGE_ACCESS != 0 {
		rights = ib.Access(access)
	}
	var buf []byte
	var err error
	if flags&C.IBV_REREG_MR_CHANGE_TRANSLATION != 0 {
		buf, err = memoryOf(addr, length, rights)
	} else if old := o.verbs.Bytes(); len(old) > 0 && flags&C.IBV_REREG_MR_CHANGE_ACCESS != 0 {
		_, err = memoryOf(unsafe.Pointer(unsafe.SliceData(old)), C.size_t(len(old)), rights)
	}
	if err == nil {
		err = o.verbs.Rereg(ib.ReregFlags(flags), domain, buf, ib.Access(access))
	}
	if err == nil {
		o.rights.Store(uint32(rights))
		*lkey, *rkey = C.uint32_t(o.verbs.LKey()), C.uint32_t(o.verbs.RKey())
	}
	return C.int(errnoOf("ibv_rereg_mr", err))
}

//export vb_mr_dereg
func vb_mr_dereg(mr C.vb_handle) C.int {
	o := mrs.get(handle(mr))
	if o == nil {
		return C.int(errnoOf("ibv_dereg_mr", noObject("MR")))
	}
	err := o.verbs.Dereg()
	if err == nil {
		mrs.remove(handle(mr))
	}
	return C.int(errnoOf("ibv_dereg_mr", err))
}

//export vb_mw_alloc
func vb_mw_alloc(pd C.vb_handle, typ C.enum_ibv_mw_type, mw *C.vb_handle, rkey *C.uint32_t) C.int {
	o := pds.get(handle(pd))
	if o == nil {
		return C.int(errnoOf("ibv_alloc_mw", noObject("PD")))
	}
	if typ > math.MaxUint8 {
		return C.int(errnoOf("ibv_alloc_mw", invalid("type %d", typ)))
	}
	w, err := o.verbs.AllocMW(ib.MWType(typ))
	if err == nil {
		m := &mwObject{ctx: o.ctx, verbs: w}
		m.bind.last = w.RKey()
		var h handle
		if h, err = mws.put(m); err == nil {
			*mw, *rkey = C.vb_handle(h), C.uint32_t(w.RKey())
			return 0
		}
		w.Dealloc()
	}
	return C.int(errnoOf("ibv_alloc_mw", err))
}

//export vb_mw_free
func vb_mw_free(mw C.vb_handle) C.int {
	o := mws.get(handle(mw))
	if o == nil {
		return C.int(errnoOf("ibv_dealloc_mw", noObject("MW")))
	}
	err := o.verbs.Dealloc()
	if err == nil {
		mws.remove(handle(mw))
	}
	return C.int(errnoOf("ibv_dealloc_mw", err))
}

// mwKey chooses the keys of a type 1 window: a caller of ibv_bind_mw is told
// the new one when the bind is posted, also if others are posted and not yet
// done.
type mwKey struct {
	mu   sync.Mutex
	last ib.RKey // guarded by mu: of the last bind posted
}

//export vb_qp_bind_mw
func vb_qp_bind_mw(qp C.vb_handle, mw *C.struct_vb_mw, bind *C.struct_ibv_mw_bind, rkey *C.uint32_t) C.int {
	const call = "ibv_bind_mw"
	q, w := qps.get(handle(qp)), mws.get(handle(mw.handle))
	if q == nil || w == nil {
		return C.int(errnoOf(call, noObject("QP or MW")))
	}
	if bind.send_flags > math.MaxUint8 {
		return C.int(errnoOf(call, invalid("send_flags %#x", bind.send_flags)))
	}
	b := core.BindWR{ID: uint64(bind.wr_id), Flags: ib.SendFlags(bind.send_flags)}
	if err := takeBind(&b, &bind.bind_info); err != nil {
		return C.int(errnoOf(call, err))
	}
	w.bind.mu.Lock()
	defer w.bind.mu.Unlock()
	b.RKey = w.bind.last.Next()
	err := q.verbs.BindMW(w.verbs, b)
	if err == nil {
		w.bind.last = b.RKey
		*rkey = C.uint32_t(b.RKey)
	}
	return C.int(errnoOf(call, err))
}

// takeBind reads what a window is to be bound to.
func takeBind(b *core.BindWR, info *C.struct_ibv_mw_bind_info) error {
	b.MR = nil
	if info.mr != nil {
		r := mrs.get(handle((*C.struct_vb_mr)(unsafe.Pointer(info.mr)).handle))
		if r == nil {
			return noObject("MR")
		}
		b.MR = r.verbs
	}
	b.Addr, b.Length, b.Access = uint64(info.addr), uint64(info.length), ib.Access(info.mw_access_flags)
	b.Access &^= ib.AccessLocalWrite // means nothing in a window; programs set it, and drivers let them
	return nil
}
