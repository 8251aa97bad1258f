// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

// #include "engine.h"
import "C"

import (
	"sync"
	"sync/atomic"

	"verbena/internal/core"
	"verbena/internal/engine"
)

// The objects that handles name. Fields are immutable unless said otherwise.
type (
	ctxObject struct {
		verbs  *core.Context
		engine *engine.Engine
		// cookies maps the objects of asynchronous events, *core.QP, *core.CQ or *core.SRQ, to
		// their cookies, uint64.
		cookies sync.Map
		events  sync.Map // *cqEvent of each of its queues with a channel
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
		rights atomic.Uint32 // the rights of the last registration
	}

	mwObject struct {
		ctx   *ctxObject
		verbs *core.MW
		bind  mwKey
	}

	cqObject struct {
		ctx   *ctxObject
		verbs *core.CQ
		timed bool     // the times of completions are behind the slots
		event *cqEvent // nil without a channel
		habit habit    // of its polls; atomic
	}

	srqObject struct {
		ctx   *ctxObject
		verbs *core.SRQ
	}

	qpObject struct {
		ctx   *ctxObject
		verbs *core.QP
		lent  atomic.Pointer[cmID] // the identifier that it was last lent to: cmqp_attach.go
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
	channels = table[channel]{kind: kindChannel}
)

// giveQP gives a new queue pair a handle, or destroys it.
func giveQP(to *C.vb_handle, ctx *ctxObject, q *core.QP, cookie C.vb_cookie,
	destroy func() error) error {
	o := &qpObject{ctx: ctx, verbs: q}
	err := qps.give(to, o, destroy)
	if err == nil {
		ctx.cookies.Store(q, uint64(cookie))
		o.listed(q)
	}
	return err
}

// forget undoes giveQP, except for the handle, once the queue pair is destroyed.
func (o *qpObject) forget() {
	o.ctx.cookies.Delete(o.verbs)
	connectable.CompareAndDelete(o.verbs.QPN(), o)
}
