// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

// handlerRoom is what a handler of signals may use of the stack. The kernel's
// frame alone has some KiB: the processor's vector registers are in it.
const handlerRoom = 64 << 10

// ensureStack makes sure that a handler of the application's has room on the stack.
//
// A handler that was installed without SA_ONSTACK runs on the stack that the
// thread stands on, and a thread that calls us stands on one of Go's, which
// begins with 4 KiB. So every call asks for room as it begins. A thread keeps its
// stack, so that all calls but the first find it there, which costs 2 ns.
//
// Deviation: a thread's first call has no room until it comes here. Under
// `verbena run` handlers run on an alternate stack instead (cabi/devshim).
//
//go:noinline
func ensureStack() {
	if noHandlerRoom { // what counts is the frame, which this function has in any case
		var room [handlerRoom]byte
		occupy(&room)
	}
}

var noHandlerRoom bool // never set

//go:noinline
func occupy(room *[handlerRoom]byte) { room[0] = 1 }
