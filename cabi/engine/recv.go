// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

// #include "engine.h"
import "C"

import (
	"unsafe"

	"verbena/ib"
	"verbena/internal/device"
	"verbena/internal/queue"
)

// receives returns the receive queue in memory of C, nil if C does not post by itself.
//
// Errors: EINVAL if the memory does not fit depth and maxSGE.
func receives(m *C.struct_vb_recv_memory, depth, maxSGE uint32) (*queue.OutsideRecvQueue, error) {
	if m.ring == nil {
		return nil, nil
	}
	if depth > maxReceives || maxSGE > ib.MaxSGE {
		return nil, invalid("%d receives of %d elements", depth, maxSGE)
	}
	q, err := queue.NewOutsideRecvQueue((*queue.RecvRing)(unsafe.Pointer(m.ring)),
		recvSlots(m.slots, m.mask, maxSGE), int(depth), int(maxSGE))
	if err != nil {
		return nil, invalid("%v", err)
	}
	return q, nil
}

const maxReceives = max(device.MaxQPWR, device.MaxSRQWR)

// recvSlots returns the slots of a receive queue as a slice. It checks the number before it uses
// the pointer.
func recvSlots(slots *C.struct_ibv_sge, mask C.uint64_t, maxSGE uint32) []ib.SGE {
	if slots == nil || mask >= 2*maxReceives {
		return nil
	}
	return unsafe.Slice((*ib.SGE)(unsafe.Pointer(slots)), (int(mask)+1)*(1+int(maxSGE)))
}
