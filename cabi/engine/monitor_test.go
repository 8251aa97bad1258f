// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

import (
	"os"
	"runtime"
	"sync"
	"testing"
	"time"
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

// TestProcessorsGrowWithThreads checks that threads of the application get processors, and the
// runtime's own none: a collection of garbage would have more threads each time.
func TestProcessorsGrowWithThreads(t *testing.T) {
	if v := os.Getenv("GOMAXPROCS"); v != "" {
		t.Skipf("GOMAXPROCS=%s sets the number of processors", v)
	}
	before := runtime.GOMAXPROCS(0)
	t.Cleanup(func() {
		runtime.GOMAXPROCS(before)
		threadsServed.Store(0)
	})
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
	// The runtime counts a thread shortly before it makes it.
	for until := time.Now().Add(10 * time.Second); applicationThreads() > spareProcessors/2 && time.Now().Before(until); {
		runtime.Gosched()
	}
	enoughProcessors()
	if got := runtime.GOMAXPROCS(0); got != before {
		t.Errorf("%d processors became %d with threads of the runtime", before, got)
	}
	close(end)
	gone.Wait()
	for _, c := range []struct{ threads, want int }{
		{0, before}, {spareProcessors / 2, before}, {threads, before + threads}, {threads, before + threads}, {threads + 1, before + threads},
	} {
		enoughFor(c.threads)
		if got := runtime.GOMAXPROCS(0); got != c.want {
			t.Errorf("%d processors for %d threads, want %d", got, c.threads, c.want)
		}
	}
}
