// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

import (
	"os"
	"runtime"
	"sync"
	"testing"
)

// TestSpareProcessors checks that threads that have left Go leave processors for others.
func TestSpareProcessors(t *testing.T) {
	if v := os.Getenv("GOMAXPROCS"); v != "" {
		t.Skipf("GOMAXPROCS=%s sets the number of processors", v)
	}
	got := runtime.GOMAXPROCS(0)
	runtime.SetDefaultGOMAXPROCS()
	want := runtime.GOMAXPROCS(got) + spareProcessors
	if got != want {
		t.Errorf("%d processors of the Go runtime, want %d", got, want)
	}
}

// TestProcessorsGrowWithThreads checks that threads which stay in C after a call into Go leave
// processors for others. With fewer processors than threads a call waited for the monitor.
func TestProcessorsGrowWithThreads(t *testing.T) {
	if v := os.Getenv("GOMAXPROCS"); v != "" {
		t.Skipf("GOMAXPROCS=%s sets the number of processors", v)
	}
	const threads = 100
	end := make(chan struct{})
	var there, gone sync.WaitGroup
	for range threads {
		there.Add(1)
		gone.Go(func() {
			runtime.LockOSThread() // so the runtime makes a thread for the next goroutine
			there.Done()
			<-end
		})
	}
	there.Wait()
	enoughProcessors()
	if got, least := runtime.GOMAXPROCS(0), threads+spareProcessors; got < least {
		t.Errorf("%d processors for %d threads, want at least %d", got, threads, least)
	}
	before := runtime.GOMAXPROCS(0)
	enoughProcessors()
	if got := runtime.GOMAXPROCS(0); got != before {
		t.Errorf("%d processors became %d without another thread", before, got)
	}
	close(end)
	gone.Wait()
}
