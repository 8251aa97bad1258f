// SPDX-License-Identifier: BSD-2-Clause

package cputime

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestGrowsWithWorkOnly(t *testing.T) {
	first, ok := Used()
	if !ok {
		t.Fatal("the system does not tell the processor time of a process")
	}
	for { // the test's time-out ends it
		if now, _ := Used(); now > first {
			return
		}
	}
}

// Threads of one core that yield to each other are preempted. A thread that sleeps is not.
func TestPreemptionsAreNoSleeps(t *testing.T) {
	var core unix.CPUSet
	if err := unix.SchedGetaffinity(0, &core); err != nil {
		t.Fatal(err)
	}
	for i := 0; core.Count() > 1; i++ {
		core.Clear(i)
	}
	done, ended := make(chan struct{}), make(chan struct{})
	yield := func() {
		runtime.LockOSThread() // and the thread ends with the goroutine
		if err := unix.SchedSetaffinity(0, &core); err != nil {
			t.Error(err)
		}
		for {
			select {
			case <-done:
				ended <- struct{}{}
				return
			default:
				_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
			}
		}
	}
	first := Preemptions()
	go yield()
	go yield()
	for Preemptions() == first { // the test's time-out ends it
		time.Sleep(time.Millisecond)
	}
	close(done)
	<-ended
	<-ended
	for { // a loaded machine may preempt a thread that wakes up
		first = Preemptions()
		if time.Sleep(time.Millisecond); Preemptions() == first {
			return
		}
	}
}
