// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

import (
	"sync"
	"sync/atomic"

	"verbena/internal/backdoor"
	"verbena/internal/engine"
	"verbena/verbs"
)

// What handles name. Fields are immutable unless said otherwise.
type (
	ctxObject struct {
		verbs  *verbs.Context
		engine *engine.Engine
		// cookies is what C calls the objects that asynchronous events are of:
		// *verbs.QP, *verbs.CQ or *verbs.SRQ to uint64.
		cookies sync.Map
		events  sync.Map // *cqEvent of its queues that have a channel
		closing atomic.Bool
		passed  chan struct{} // closed when passEvents has ended
	}

	pdObject struct {
		ctx   *ctxObject
		verbs *verbs.PD
	}

	xrcdObject struct {
		ctx   *ctxObject
		verbs *verbs.XRCD
	}

	mrObject struct {
		ctx    *ctxObject
		verbs  *verbs.MR
		rights atomic.Uint32 // what it was registered for last
	}

	mwObject struct {
		ctx   *ctxObject
		verbs *verbs.MW
		bind  mwKey
	}

	cqObject struct {
		ctx   *ctxObject
		verbs *verbs.CQ
		event *cqEvent // nil without a channel
	}

	srqObject struct {
		ctx   *ctxObject
		verbs *verbs.SRQ
	}

	qpObject struct {
		ctx   *ctxObject
		verbs *verbs.QP
		lent  atomic.Pointer[cmID] // the identifier that had it last: lend.go
		poster
		scratch
	}

	ahObject struct{ verbs *verbs.AH }
)

type poster = backdoor.Poster[verbs.SendWR]

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
func newQP(ctx *ctxObject, q *verbs.QP, cookie uint64) (handle, error) {
	o := &qpObject{ctx: ctx, verbs: q, poster: backdoor.PosterOf(q).(poster)}
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
