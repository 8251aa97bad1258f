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

// receives returns the receive queue that C posts into, nil if it does not post.
//
// Errors: EINVAL if the memory is not what depth and maxSGE want.
func receives(m *C.struct_vb_recv_memory, depth, maxSGE uint32) (*queue.OutsideRecvQueue, error) {
	if m.ring == nil {
		return nil, nil
	}
	if depth > maxReceives || maxSGE > ib.MaxSGE {
		return nil, invalid("%d receives of %d elements", depth, maxSGE)
	}
	q, err := queue.NewOutsideRecvQueue((*queue.RecvRing)(unsafe.Pointer(m.ring)), recvSlots(m.slots, m.mask, maxSGE), int(depth), int(maxSGE))
	if err != nil {
		return nil, invalid("%v", err)
	}
	return q, nil
}

const maxReceives = max(device.MaxQPWR, device.MaxSRQWR)

// recvSlots returns the slots of a receive queue as Go knows them. The number is
// checked before the pointer is used.
func recvSlots(slots *C.struct_ibv_sge, mask C.uint64_t, maxSGE uint32) []ib.SGE {
	if slots == nil || mask >= 2*maxReceives {
		return nil
	}
	return unsafe.Slice((*ib.SGE)(unsafe.Pointer(slots)), (int(mask)+1)*(1+int(maxSGE)))
}
