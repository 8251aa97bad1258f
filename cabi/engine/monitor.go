// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

// #cgo LDFLAGS: -Wl,--wrap=pthread_create
import "C"

import (
	"runtime"
	"sync/atomic"
)

// spareProcessors is the number of processors of the Go runtime beyond the number of threads, and
// beyond its own choice: one per core, or fewer by a cgroup's limit.
//
// A thread keeps its processor when a call into Go returns, until the runtime's monitor takes it. A
// call that finds none free waits for the monitor, which is late (monitor.c). With 8 threads on two
// cores a call took 0.4 times as long with the spare ones, with 32 threads 0.3 times.
const spareProcessors = 16

// processors is the number of processors that enoughProcessors has seen to.
var processors atomic.Int64

func init() {
	if getenv("GOMAXPROCS") == "" {
		n := runtime.GOMAXPROCS(0) + spareProcessors
		runtime.GOMAXPROCS(n)
		processors.Store(int64(n))
	}
}

// enoughProcessors gives the Go runtime more processors if threads of the application could come to
// hold them all. The background goroutine calls it at times, so half of the spare ones are for the
// threads that come in between.
func enoughProcessors() {
	have := processors.Load()
	if have == 0 { // the user has chosen
		return
	}
	threads, _ := runtime.ThreadCreateProfile(nil)
	if threads+spareProcessors/2 > int(have) {
		n := threads + spareProcessors
		runtime.GOMAXPROCS(n)
		processors.Store(int64(n))
	}
}
