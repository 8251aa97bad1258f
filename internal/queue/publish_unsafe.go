// SPDX-License-Identifier: BSD-2-Clause

//go:build amd64 && !race

package queue

import (
	"sync/atomic"
	"unsafe"
)

// publish stores v in a counter after all earlier writes. On amd64 stores are seen in their order.
// Store would also wait until all of them are seen, as much as a lock does. It is not inlined, so
// that the compiler has nothing to move.
//
//go:noinline
func publish(p *atomic.Uint64, v uint64) { *(*uint64)(unsafe.Pointer(p)) = v }
