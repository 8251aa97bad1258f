// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

// #cgo LDFLAGS: -Wl,--wrap=pthread_create
// unsigned vb_threads_made(void);
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

// The runtime's own choice, and the number of the application's threads that enoughProcessors has
// given processors. ownProcessors is 0 if the user has chosen.
var (
	ownProcessors int
	threadsServed atomic.Int64
)

func init() {
	if getenv("GOMAXPROCS") == "" {
		ownProcessors = runtime.GOMAXPROCS(0)
		runtime.GOMAXPROCS(ownProcessors + spareProcessors)
	}
}

// enoughProcessors gives the Go runtime a processor for each thread of the application that has
// called Go, besides the spare ones. The background goroutine calls it at times, so half of the
// spare ones are for the threads that come in between.
func enoughProcessors() { enoughFor(applicationThreads()) }

func enoughFor(threads int) {
	if ownProcessors != 0 && threads > int(threadsServed.Load())+spareProcessors/2 {
		threadsServed.Store(int64(threads))
		runtime.GOMAXPROCS(ownProcessors + threads + spareProcessors)
	}
}

// applicationThreads returns how many threads that the Go runtime did not make have called Go at a
// time. Its own are left out: a collection of garbage has more of them the more processors there
// are.
func applicationThreads() int {
	all, _ := runtime.ThreadCreateProfile(nil)
	return max(all-int(C.vb_threads_made()), 0)
}
