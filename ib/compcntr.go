// SPDX-License-Identifier: BSD-2-Clause

package ib

// CompCntrType is the unit in which a completion counter counts: ibv_comp_cntr_type.
type CompCntrType uint32

// Types of completion counters.
const (
	CompCntrWRs   CompCntrType = 0 // work requests
	CompCntrBytes CompCntrType = 1 // their bytes
)

// CompCntrOps is a set of operations that a completion counter counts: ibv_qp_attach_comp_cntr_op.
type CompCntrOps uint32

// Operations of the queue pair, and those of its peer on its memory.
const (
	CompCntrSend        CompCntrOps = 1 << 0
	CompCntrRecv        CompCntrOps = 1 << 1
	CompCntrRead        CompCntrOps = 1 << 2
	CompCntrRemoteRead  CompCntrOps = 1 << 3
	CompCntrWrite       CompCntrOps = 1 << 4
	CompCntrRemoteWrite CompCntrOps = 1 << 5
)

// CompCntrCaps has the bounds of completion counters: ibv_comp_cntr_caps.
type CompCntrCaps struct {
	MaxValue    uint64
	MaxCounters uint32
	Ops         CompCntrOps
}

// CompCntrSendOf returns the operation that a send work request counts as, 0 if it counts as none.
func CompCntrSendOf(o WROpcode) CompCntrOps {
	switch o {
	case WRSend, WRSendWithImm, WRSendWithInv:
		return CompCntrSend
	case WRRDMARead:
		return CompCntrRead
	case WRRDMAWrite, WRRDMAWriteWithImm:
		return CompCntrWrite
	}
	return 0
}
