// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

// #include "engine.h"
import "C"

import (
	"unsafe"

	"verbena/cabi/layout"
	"verbena/ib"
	"verbena/internal/core"
)

func (o *qpObject) createFlow(attr *C.struct_ibv_flow_attr, specs unsafe.Pointer, length C.size_t,
	counters *C.vb_handle, n C.uint32_t, flow *C.vb_handle) error {
	list, err := layout.FlowSpecs(unsafe.Slice((*byte)(specs), length))
	if err != nil {
		return err
	}
	var with []*core.Counters
	for _, h := range unsafe.Slice(counters, n) {
		c := flowCounters.get(handle(h))
		if c == nil {
			return flowCounters.none()
		}
		with = append(with, c.verbs)
	}
	f, err := o.verbs.CreateFlow(&ib.FlowAttr{Type: ib.FlowType(small(uint32(attr._type))),
		Priority: uint16(attr.priority), Port: uint8(attr.port), Flags: ib.FlowFlags(attr.flags),
		Specs: list}, with...)
	if err != nil {
		return err
	}
	return flows.give(flow, &flowObject{f}, f.Destroy)
}

func (o *flowObject) destroy() error { return o.verbs.Destroy() }

func (o *ctxObject) createCounters(counters *C.vb_handle) error {
	n, err := o.verbs.CreateCounters()
	if err != nil {
		return err
	}
	return flowCounters.give(counters, &countersObject{n}, n.Destroy)
}

func (o *countersObject) attach(what, index C.uint32_t, flow C.vb_handle) error {
	var of *core.Flow
	if flow != 0 {
		f := flows.get(handle(flow))
		if f == nil {
			return flows.none()
		}
		of = f.verbs
	}
	return o.verbs.Attach(ib.CounterKind(small(uint32(what))), uint32(index), of)
}

func (o *countersObject) read(values *C.uint64_t, n C.uint32_t) error {
	return o.verbs.Read(unsafe.Slice((*uint64)(values), n))
}

func (o *countersObject) destroy() error { return o.verbs.Destroy() }

// A flowObject is a flow, a countersObject the counters of flows.
type (
	flowObject     struct{ verbs *core.Flow }
	countersObject struct{ verbs *core.Counters }
)

var (
	flows        = table[flowObject]{kind: kindFlow}
	flowCounters = table[countersObject]{kind: kindCounters}
)
