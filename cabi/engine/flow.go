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
	flow *C.vb_handle) error {
	list, err := layout.FlowSpecs(unsafe.Slice((*byte)(specs), length))
	if err != nil {
		return err
	}
	f, err := o.verbs.CreateFlow(&ib.FlowAttr{Type: ib.FlowType(small(uint32(attr._type))),
		Priority: uint16(attr.priority), Port: uint8(attr.port), Flags: ib.FlowFlags(attr.flags),
		Specs: list})
	if err != nil {
		return err
	}
	return flows.give(flow, &flowObject{f}, f.Destroy)
}

func (o *flowObject) destroy() error { return o.verbs.Destroy() }

// A flowObject is a flow.
type flowObject struct{ verbs *core.Flow }

var flows = table[flowObject]{kind: kindFlow}
