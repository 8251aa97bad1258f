// SPDX-License-Identifier: BSD-2-Clause

package verbs

import (
	"unsafe"

	"verbena/internal/core"
)

// Work requests have the same fields in the same order here and in package core, but for the names
// of the objects' types. So a list need not be copied; wr_test.go holds the layouts equal.

func coreSends(wrs []SendWR) []core.SendWR {
	return unsafe.Slice((*core.SendWR)(unsafe.Pointer(unsafe.SliceData(wrs))), len(wrs))
}

func coreRecvs(wrs []RecvWR) []core.RecvWR {
	return unsafe.Slice((*core.RecvWR)(unsafe.Pointer(unsafe.SliceData(wrs))), len(wrs))
}

func coreBind(b *BindWR) *core.BindWR { return (*core.BindWR)(unsafe.Pointer(b)) }
