// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

// handlerRoom bounds the stack of a signal handler. The frame of the kernel alone has some KiB: it
// holds the vector registers.
const handlerRoom = 64 << 10

// ensureStack makes sure that a signal handler of the application has room on the stack.
//
// A handler without SA_ONSTACK runs on the current stack of its thread. A thread that calls the
// engine runs on a stack of Go, which begins with 4 KiB. So every call asks for room as it begins.
// A thread keeps its stack: later calls find the room, which costs 2 ns.
//
// Deviation: before the first call of a thread comes here it has no room. Under `verbena run`
// handlers run on an alternate stack instead (cabi/devshim).
//
//go:noinline
func ensureStack() {
	if noHandlerRoom { // only the frame counts, which this function has in any case
		var room [handlerRoom]byte
		occupy(&room)
	}
}

var noHandlerRoom bool // never set

//go:noinline
func occupy(room *[handlerRoom]byte) { room[0] = 1 }
