// SPDX-License-Identifier: BSD-2-Clause

package queue

import (
	"unsafe"

	"verbena/ib"
)

// place returns the address of the slots for a C program that polls by itself.
func (r *Ring) place(slots []ib.WC) {
	r.mask = uint64(len(slots) - 1)
	r.base = uintptr(unsafe.Pointer(unsafe.SliceData(slots)))
}
