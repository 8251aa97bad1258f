// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

// #include "engine.h"
import "C"

import (
	"math"
	"sync"
	"syscall"
	"unsafe"

	"verbena/ib"
	"verbena/internal/core"
)

func (o *ctxObject) pdAlloc(pd *C.vb_handle) error {
	p, err := o.verbs.AllocPD()
	if err != nil {
		return err
	}
	return pds.give(pd, &pdObject{ctx: o, verbs: p}, p.Dealloc)
}

func (o *pdObject) free() error { return o.verbs.Dealloc() }

func (o *pdObject) mrReg(addr unsafe.Pointer, length C.size_t, iova C.uint64_t, access C.uint32_t,
	mr *C.vb_handle, lkey, rkey *C.uint32_t) error {
	r, err := o.register(addr, length, uint64(iova), ib.Access(access))
	if err != nil {
		return err
	}
	m := &mrObject{ctx: o.ctx, verbs: r}
	m.rights.Store(uint32(access))
	if err = mrs.give(mr, m, r.Dereg); err == nil {
		*lkey, *rkey = C.uint32_t(r.LKey()), C.uint32_t(r.RKey())
	}
	return err
}

func (o *pdObject) mrNull(mr *C.vb_handle, lkey *C.uint32_t) error {
	r, err := o.verbs.AllocNullMR()
	if err != nil {
		return err
	}
	if err = mrs.give(mr, &mrObject{ctx: o.ctx, verbs: r}, r.Dereg); err == nil {
		*lkey = C.uint32_t(r.LKey())
	}
	return err
}

func (o *pdObject) register(addr unsafe.Pointer, length C.size_t, iova uint64, access ib.Access) (
	*core.MR, error) {
	if access.Has(ib.AccessOnDemand) && addr == nil && length == C.SIZE_MAX {
		if iova != 0 {
			return nil, invalid("iova %#x of an implicit region", iova)
		}
		return o.verbs.RegAddressSpace(access)
	}
	buf, err := memoryOf(addr, length, access)
	if err != nil {
		return nil, err
	}
	if access.Has(ib.AccessZeroBased) && iova == uint64(uintptr(addr)) {
		iova = 0 // ibv_reg_mr passes no other address
	}
	return o.verbs.RegMRIOVA(buf, iova, access)
}

// mrAdvise pages in memory of on-demand paging regions.
func (o *pdObject) mrAdvise(advice C.unsigned, sgl *C.struct_ibv_sge, n C.uint32_t) error {
	if advice > math.MaxUint8 {
		return syscall.EOPNOTSUPP
	}
	for _, s := range unsafe.Slice(sgl, n) {
		sge := ib.SGE{Addr: uint64(s.addr), Length: uint32(s.length), LKey: ib.LKey(s.lkey)}
		if err := o.verbs.AdviseMR(ib.MRAdvice(advice), []ib.SGE{sge}); err != nil {
			return err
		}
	}
	return nil
}

func (o *mrObject) rereg(flags C.int, pd C.vb_handle, addr unsafe.Pointer, length C.size_t,
	access C.uint32_t, lkey, rkey *C.uint32_t) error {
	if flags <= 0 || flags&^C.IBV_REREG_MR_FLAGS_SUPPORTED != 0 {
		return invalid("flags %#x", int(flags))
	}
	var domain *core.PD
	if flags&C.IBV_REREG_MR_CHANGE_PD != 0 {
		p := pds.get(handle(pd))
		if p == nil {
			return pds.none()
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
	return err
}

func (o *mrObject) dereg() error { return o.verbs.Dereg() }

func (o *pdObject) mwAlloc(typ C.enum_ibv_mw_type, mw *C.vb_handle, rkey *C.uint32_t) error {
	if typ > math.MaxUint8 {
		return invalid("type %d", typ)
	}
	w, err := o.verbs.AllocMW(ib.MWType(typ))
	if err != nil {
		return err
	}
	m := &mwObject{ctx: o.ctx, verbs: w}
	m.bind.last = w.RKey()
	if err = mws.give(mw, m, w.Dealloc); err == nil {
		*rkey = C.uint32_t(w.RKey())
	}
	return err
}

func (o *mwObject) free() error { return o.verbs.Dealloc() }

// mwKey chooses the keys of a type 1 window. ibv_bind_mw returns the new key when the bind is
// posted, even while earlier binds are in progress.
type mwKey struct {
	mu   sync.Mutex
	last ib.RKey // guarded by mu: key of the last bind posted
}

func (o *qpObject) bindMW(mw *C.struct_vb_mw, bind *C.struct_ibv_mw_bind, rkey *C.uint32_t) error {
	w := mws.get(handle(mw.handle))
	if w == nil {
		return mws.none()
	}
	if bind.send_flags > math.MaxUint8 {
		return invalid("send_flags %#x", bind.send_flags)
	}
	b := core.BindWR{ID: uint64(bind.wr_id), Flags: ib.SendFlags(bind.send_flags)}
	if err := takeBind(&b, &bind.bind_info); err != nil {
		return err
	}
	w.bind.mu.Lock()
	defer w.bind.mu.Unlock()
	b.RKey = w.bind.last.Next()
	err := o.verbs.BindMW(w.verbs, b)
	if err == nil {
		w.bind.last = b.RKey
		*rkey = C.uint32_t(b.RKey)
	}
	return err
}

// takeBind reads the memory and rights that a window is to be bound to.
func takeBind(b *core.BindWR, info *C.struct_ibv_mw_bind_info) error {
	b.MR = nil
	if info.mr != nil {
		r := mrs.get(handle((*C.struct_vb_mr)(unsafe.Pointer(info.mr)).handle))
		if r == nil {
			return mrs.none()
		}
		b.MR = r.verbs
	}
	b.Addr, b.Length = uint64(info.addr), uint64(info.length)
	// Local write means nothing in a window. Programs set it, and drivers ignore it.
	b.Access = ib.Access(info.mw_access_flags) &^ ib.AccessLocalWrite
	return nil
}
