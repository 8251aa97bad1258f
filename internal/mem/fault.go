// SPDX-License-Identifier: BSD-2-Clause

package mem

import (
	"runtime"
	"runtime/debug"
	"sync/atomic"
)

// Registered memory may go while it is registered: C unmaps it, or a mapped file becomes shorter.
// Touching it then must not be the end of the process. It is an error of the work request; copyIn
// alone makes an exception. All code touches it through the functions of this file, which cost some
// ten nanoseconds and report false for a fault.

// caught is deferred around the touching. It puts back how the goroutine takes
// faults and turns one into false. Where ok is true already there was none.
func caught(before bool, ok *bool) {
	if !before {
		debug.SetPanicOnFault(false)
	}
	if *ok {
		return
	}
	r := recover()
	if r == nil {
		return
	}
	if !isFault(r) {
		panic(r)
	}
	*ok = false
}

// isFault reports whether an error of the runtime is a fault.
func isFault(r any) bool {
	e, ok := r.(runtime.Error)
	if !ok {
		return false
	}
	if _, ok := e.(interface{ Addr() uintptr }); ok {
		return true
	}
	// An address that the processor does not even translate comes without it.
	return e.Error() == "runtime error: invalid memory address or nil pointer dereference"
}

// Copy copies len(src) bytes to dst, which has room for them. It returns false, after
// some of the bytes, if the memory of either has gone.
func Copy(dst, src []byte) (ok bool) {
	dst = dst[:len(src)]
	defer caught(debug.SetPanicOnFault(true), &ok)
	copy(dst, src)
	return true
}

// Try calls touch, which reads or writes memory that may have gone: false if so.
func Try(touch func()) (ok bool) {
	defer caught(debug.SetPanicOnFault(true), &ok)
	touch()
	return true
}

// Sum returns update(sum, p), false if p has gone.
func Sum(sum uint32, p []byte, update func(uint32, []byte) uint32) (_ uint32, ok bool) {
	defer caught(debug.SetPanicOnFault(true), &ok)
	return update(sum, p), true
}

// SumEach is Sum of as many pieces of p as there are sums, which have the same length. It returns
// false, after some of them, if p has gone.
func SumEach(sums []uint32, p []byte, update func(uint32, []byte) uint32) (ok bool) {
	defer caught(debug.SetPanicOnFault(true), &ok)
	n := len(p) / max(len(sums), 1)
	for i := range sums {
		sums[i] = update(sums[i], p[i*n:(i+1)*n])
	}
	return true
}

func compareSwap(p *uint64, cmp, swap uint64) (orig uint64, ok bool) {
	defer caught(debug.SetPanicOnFault(true), &ok)
	for {
		orig = atomic.LoadUint64(p)
		if orig != cmp || atomic.CompareAndSwapUint64(p, cmp, swap) {
			return orig, true
		}
	}
}

func fetchAdd(p *uint64, add uint64) (orig uint64, ok bool) {
	defer caught(debug.SetPanicOnFault(true), &ok)
	return atomic.AddUint64(p, add) - add, true
}

func store8(p *uint64, v uint64) (ok bool) {
	defer caught(debug.SetPanicOnFault(true), &ok)
	atomic.StoreUint64(p, v)
	return true
}
