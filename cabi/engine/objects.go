// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

import (
	"sync"
	"sync/atomic"

	"verbena/internal/core"
	"verbena/internal/engine"
)

// What handles name. Fields are immutable unless said otherwise.
type (
	ctxObject struct {
		verbs  *core.Context
		engine *engine.Engine
		// cookies is what C calls the objects that asynchronous events are of:
		// *core.QP, *core.CQ or *core.SRQ to uint64.
		cookies sync.Map
		events  sync.Map // *cqEvent of its queues that have a channel
		closing atomic.Bool
		passed  chan struct{} // closed when passEvents has ended
	}

	pdObject struct {
		ctx   *ctxObject
		verbs *core.PD
	}

	xrcdObject struct {
		ctx   *ctxObject
		verbs *core.XRCD
	}

	mrObject struct {
		ctx    *ctxObject
		verbs  *core.MR
		rights atomic.Uint32 // what it was registered for last
	}

	mwObject struct {
		ctx   *ctxObject
		verbs *core.MW
		bind  mwKey
	}

	cqObject struct {
		ctx   *ctxObject
		verbs *core.CQ
		event *cqEvent // nil without a channel
	}

	srqObject struct {
		ctx   *ctxObject
		verbs *core.SRQ
	}

	qpObject struct {
		ctx   *ctxObject
		verbs *core.QP
		lent  atomic.Pointer[cmID] // the identifier that had it last: cmqp_attach.go
		scratch
	}

	ahObject struct{ verbs *core.AH }
)

var (
	contexts = table[ctxObject]{kind: kindContext}
	pds      = table[pdObject]{kind: kindPD}
	xrcds    = table[xrcdObject]{kind: kindXRCD}
	mrs      = table[mrObject]{kind: kindMR}
	mws      = table[mwObject]{kind: kindMW}
	cqs      = table[cqObject]{kind: kindCQ}
	srqs     = table[srqObject]{kind: kindSRQ}
	qps      = table[qpObject]{kind: kindQP}
	ahs      = table[ahObject]{kind: kindAH}
)

// newQP gives a queue pair a handle, whoever made it.
func newQP(ctx *ctxObject, q *core.QP, cookie uint64) (handle, error) {
	o := &qpObject{ctx: ctx, verbs: q}
	h, err := qps.put(o)
	if err == nil {
		ctx.cookies.Store(q, cookie)
		o.listed(q)
	}
	return h, err
}

// forgetQP takes back what newQP gave, once the queue pair is destroyed.
func forgetQP(h handle) {
	if o := qps.get(h); o != nil && qps.remove(h) {
		o.ctx.cookies.Delete(o.verbs)
		connectable.CompareAndDelete(o.verbs.QPN(), o)
	}
}
