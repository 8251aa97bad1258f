// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

// #include "leave.h"
import "C"

import (
	"sync"
	"time"

	"verbena/internal/core"
	"verbena/internal/sys/futex"
	"verbena/rdmacm"
)

// attendExit has what the process owes when it exits be done: see leave.c.
var attendExit = sync.OnceFunc(func() {
	C.vb_exit_becomes(C.VB_EXIT_ATTENDED)
	go func() {
		C.vb_exit_leaves(C.VB_EXIT_ATTENDED)
		leave()
		C.vb_exit_becomes(C.VB_EXIT_DONE)
	}()
})

// leave does what a process that exits still owes: an adapter would have
// acknowledged before the application saw its last completion, and the kernel ends
// the connections that a process leaves behind.
func leave() {
	core.Leave()
	contexts.each(func(o *ctxObject) { o.engine.Leave() })
	rdmacm.Leave()
	if env().capture != "" {
		errnoOf("capture", core.FlushCapture())
	}
}

var flushing sync.Once

// flushEvery is how much of a capture an application may lose that is killed;
// one that exits loses none.
const flushEvery = 200 * time.Millisecond

// flushCapture writes the capture out now and then, as long as the process is.
func flushCapture() {
	for {
		futex.Sleep(flushEvery)
		errnoOf("capture", core.FlushCapture())
	}
}
