// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

// #include "engine.h"
import "C"

import (
	"unsafe"

	"verbena/ib"
	"verbena/internal/core"
	"verbena/internal/steer"
)

func (o *pdObject) wqCreate(cq C.vb_handle, maxWR, maxSGE C.uint32_t,
	recv *C.struct_vb_recv_memory, wq *C.vb_handle, num *C.uint32_t) error {
	a := core.WQInitAttr{MaxWR: uint32(maxWR), MaxSGE: uint32(maxSGE)}
	var err error
	if a.CQ, err = cqOf(cq); err != nil {
		return err
	}
	if a.Outside, err = receives(recv, a.MaxWR, a.MaxSGE); err != nil {
		return err
	}
	w, err := o.verbs.CreateWQ(&a)
	if err != nil {
		return err
	}
	*num = C.uint32_t(w.Num())
	return wqs.give(wq, &wqObject{w}, w.Destroy)
}

func (o *wqObject) modify(state C.uint32_t) error {
	return o.verbs.Modify(ib.WQState(small(uint32(state))))
}

func (o *wqObject) recvsPosted() error {
	o.verbs.ReceivesPosted()
	return nil
}

func (o *wqObject) destroy() error { return o.verbs.Destroy() }

func (o *ctxObject) spreadCreate(list *C.vb_handle, n C.uint32_t, spread *C.vb_handle) error {
	var of []*core.WQ
	for _, h := range unsafe.Slice(list, n) {
		w := wqs.get(handle(h))
		if w == nil {
			return wqs.none()
		}
		of = append(of, w.verbs)
	}
	t, err := o.verbs.CreateRWQTable(of)
	if err != nil {
		return err
	}
	return spreads.give(spread, &spreadObject{t}, t.Destroy)
}

func (o *spreadObject) destroy() error { return o.verbs.Destroy() }

func (o *pdObject) qpSpread(spread C.vb_handle, key unsafe.Pointer, fields C.uint64_t,
	cookie C.vb_cookie, qp *C.vb_handle, num *C.uint32_t) error {
	t := spreads.get(handle(spread))
	if t == nil {
		return spreads.none()
	}
	q, err := o.verbs.CreateRSSQP(&core.RSSInitAttr{Table: t.verbs,
		Key:    unsafe.Slice((*byte)(key), steer.HashKeyBytes),
		Fields: ib.RXHashFields(fields)})
	if err != nil {
		return err
	}
	*num = C.uint32_t(q.QPN())
	return giveQP(qp, o.ctx, q, cookie, q.Destroy)
}

// A wqObject is a work queue, a spreadObject an indirection table.
type (
	wqObject     struct{ verbs *core.WQ }
	spreadObject struct{ verbs *core.RWQTable }
)

var (
	wqs     = table[wqObject]{kind: kindWQ}
	spreads = table[spreadObject]{kind: kindSpread}
)
