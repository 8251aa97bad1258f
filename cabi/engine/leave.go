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

// attendExit starts the thread that ends the connections of an exiting process (leave.c).
var attendExit = sync.OnceFunc(func() {
	C.vb_exit_becomes(C.VB_EXIT_ATTENDED)
	go func() {
		C.vb_exit_leaves(C.VB_EXIT_ATTENDED)
		leave()
		C.vb_exit_becomes(C.VB_EXIT_DONE)
	}()
})

// leave acknowledges and ends connections for an exiting process. An adapter would have
// acknowledged before the application saw its last completion, and the kernel ends the connections
// of a process.
func leave() {
	core.Leave()
	contexts.each(func(o *ctxObject) { o.engine.Leave() })
	rdmacm.Leave()
	if e := env(); e.capture != "" || e.ring != "" {
		errnoOf("capture", core.FlushCapture())
	}
	core.Retire() // last: it may wait for another process
}

// wrote has an exiting process wait for the rest of a file.
func wrote() { C.vb_exit_works() }

var flushing sync.Once

// flushEvery bounds the part of a capture that a killed application loses; one that exits loses
// none.
const flushEvery = 200 * time.Millisecond

// flushCapture writes the capture out regularly, as long as the process runs.
func flushCapture() {
	for {
		futex.Sleep(flushEvery)
		errnoOf("capture", core.FlushCapture())
	}
}
