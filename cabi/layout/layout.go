// SPDX-License-Identifier: BSD-2-Clause

// Package layout has the work requests of C as they lie in its memory, because cgo shows
// their unions as bytes. The engine reads them there; cabi/gen holds the layouts equal.
package layout

import (
	"unsafe"

	"verbena/ib"
)

// A SendWR is a struct ibv_send_wr.
type SendWR struct {
	ID       uint64
	Next     *SendWR
	SGList   *ib.SGE
	NumSGE   int32
	Opcode   uint32
	Flags    uint32
	Imm      [4]byte  // big-endian; or invalidate_rkey, in host order
	Op       [32]byte // RDMA, Atomic or UD, by the opcode and the queue pair's type
	XRCSRQN  uint32
	_        uint32
	MW       unsafe.Pointer // of a struct vb_mw
	MWKey    uint32
	_        uint32
	BindInfo [32]byte // a struct ibv_mw_bind_info
}

// RDMA is a SendWR's Op where it names remote memory.
type RDMA struct {
	Addr uint64
	RKey uint32
}

// Atomic is a SendWR's Op of an atomic operation or a FLUSH.
type Atomic struct {
	Addr, CompareAdd, Swap uint64
	RKey                   uint32
}

// UD is a SendWR's Op on a UD queue pair.
type UD struct {
	AH        unsafe.Pointer // of a struct vb_ah
	QPN, QKey uint32
}
