// SPDX-License-Identifier: BSD-2-Clause

//go:build race

package shmring

import "unsafe"

// peek is that of builds without the race detector, which would report the producer's payload as
// written beside an atomic read. The caller expects that, and looks again.
//
//go:norace
//go:noinline
func peek(b []byte, off int) uint64 {
	return *(*uint64)(unsafe.Pointer(&b[off : off+8][0]))
}
