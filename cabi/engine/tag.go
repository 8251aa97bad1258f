// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

// #include "engine.h"
import "C"

import (
	"unsafe"

	"verbena/ib"
)

// postOps carries out a list of operations on tags, and writes the handles of those added.
func (o *srqObject) postOps(wr *C.struct_ibv_ops_wr, bad **C.struct_ibv_ops_wr) error {
	for ; wr != nil; wr = wr.next {
		if err := o.postOp(wr); err != nil {
			*bad = wr
			return err
		}
	}
	return nil
}

func (o *srqObject) postOp(wr *C.struct_ibv_ops_wr) error {
	if uint32(wr.opcode) > uint32(ib.TagSync) || wr.flags&^0xff != 0 {
		return invalid("opcode %d, flags %#x", uint32(wr.opcode), int(wr.flags))
	}
	op := [1]ib.TagWR{{
		ID: uint64(wr.wr_id), Opcode: ib.TagOp(wr.opcode), Flags: ib.TagFlags(wr.flags),
		UnexpectedCnt: uint32(wr.tm.unexpected_cnt), Handle: uint32(wr.tm.handle),
	}}
	if op[0].Opcode == ib.TagAdd {
		a := &wr.tm.add
		list, err := sges((*ib.SGE)(unsafe.Pointer(a.sg_list)), int32(a.num_sge))
		if err != nil {
			return err
		}
		op[0].RecvID, op[0].SGList = uint64(a.recv_wr_id), list
		op[0].Tag, op[0].Mask = uint64(a.tag), uint64(a.mask)
	}
	if _, err := o.verbs.PostOps(op[:]); err != nil {
		return err
	}
	if op[0].Opcode == ib.TagAdd {
		wr.tm.handle = C.uint32_t(op[0].Handle)
	}
	return nil
}
