// SPDX-License-Identifier: BSD-2-Clause

package core

import "unsafe"

// addressOf returns the address of a buffer's first byte, by which verbs name
// memory.
func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
