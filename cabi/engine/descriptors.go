// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

// #include "engine.h"
import "C"

import (
	"unsafe"

	"verbena/internal/sys/fdtrack"
)

//export vb_descriptors
func vb_descriptors(fds *C.int, room C.int) C.int {
	var list []C.int
	if fds != nil && room > 0 {
		list = unsafe.Slice(fds, int(room))
	}
	n := 0
	fdtrack.Each(func(fd int) {
		if n < len(list) {
			list[n] = C.int(fd)
		}
		n++
	})
	return C.int(n)
}
