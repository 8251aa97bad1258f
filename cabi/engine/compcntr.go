// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

// #include "engine.h"
import "C"

import (
	"sync/atomic"

	"verbena/ib"
	"verbena/internal/core"
)

func (o *ctxObject) cntrCreate(typ C.uint32_t, cntr *C.vb_handle) error {
	n, err := o.verbs.CreateCompCntr(ib.CompCntrType(typ))
	if err != nil {
		return err
	}
	return compCntrs.give(cntr, &compCntrObject{n}, n.Destroy)
}

func (o *compCntrObject) destroy() error { return o.verbs.Destroy() }

// value returns the count of errors or of successes.
func (o *compCntrObject) value(failed C.int) *atomic.Uint64 {
	if failed != 0 {
		return o.verbs.Failed()
	}
	return o.verbs.Done()
}

func (o *compCntrObject) read(failed C.int, value *C.uint64_t) error {
	*value = C.uint64_t(o.value(failed).Load())
	return nil
}

func (o *compCntrObject) set(failed C.int, value C.uint64_t) error {
	o.value(failed).Store(uint64(value))
	return nil
}

func (o *compCntrObject) inc(failed C.int, amount C.uint64_t) error {
	o.value(failed).Add(uint64(amount))
	return nil
}

func (o *qpObject) attachCntr(cntr C.vb_handle, ops C.uint32_t) error {
	n := compCntrs.get(handle(cntr))
	if n == nil {
		return compCntrs.none()
	}
	return o.verbs.AttachCompCntr(n.verbs, ib.CompCntrOps(ops))
}

// A compCntrObject is a completion counter.
type compCntrObject struct{ verbs *core.CompCntr }

var compCntrs = table[compCntrObject]{kind: kindCompCntr}
