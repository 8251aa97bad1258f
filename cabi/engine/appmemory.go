// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

// #include "engine.h"
import "C"

import (
	"math"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"verbena/ib"
	"verbena/internal/mem"
)

// memoryOf returns memory of the application as a slice.
//
// Errors: EINVAL if the memory wraps around or is empty at the start of a page, as with the kernel.
// EFAULT if part of it is not mapped, or is to be written and may not be, unless it is paged on
// demand. Source: ibv_reg_mr(3), and the kernel, which pins the pages for the rights in access.
func memoryOf(addr unsafe.Pointer, length C.size_t, access ib.Access) ([]byte, error) {
	at, n := uintptr(addr), uintptr(length)
	page := uintptr(unix.Getpagesize())
	if n == 0 && at%page == 0 || n > math.MaxInt || at+n < at {
		return nil, invalid("%d bytes at %#x", n, at)
	}
	if access.Has(ib.AccessOnDemand) {
		if mem.OutOfReach(at, n) {
			return nil, syscall.EFAULT
		}
		return unsafe.Slice((*byte)(addr), int(n)), nil // nobody needs its pages yet
	}
	last := at + max(n, 1) - 1
	if !mem.Mapped(at, last-at+1) {
		return nil, syscall.EFAULT
	}
	const written = ib.AccessLocalWrite | ib.AccessRemoteWrite | ib.AccessRemoteAtomic |
		ib.AccessMWBind
	if access&written != 0 && !(writable(at) && writable(last)) {
		return nil, syscall.EFAULT
	}
	return unsafe.Slice((*byte)(addr), int(n)), nil
}

// From linux/futex.h.
const (
	futexWakeOp      = 5
	futexPrivateFlag = 128
	futexOpAdd       = 1
	futexOpShift     = 28
)

// nobodyWaits is a futex that no thread waits on.
var nobodyWaits uint32

// writable reports whether the page of an address may be written. It makes the kernel add 0 to a
// word of the page, which is atomic, because the application may write there at the same time. The
// kernel answers EFAULT where a store of ours would cause a signal. Callers test the first and the
// last page of a region, which leaves the others unmapped if they are.
func writable(at uintptr) bool {
	_, _, errno := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&nobodyWaits)),
		futexWakeOp|futexPrivateFlag, 0, 0, at&^3, futexOpAdd<<futexOpShift)
	return errno != unix.EFAULT // others do not depend on the page
}
