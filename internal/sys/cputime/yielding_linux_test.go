// SPDX-License-Identifier: BSD-2-Clause

package cputime

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// attr returns the policy and the niceness of the calling thread.
func attr(t *testing.T) (policy uint32, nice int32) {
	t.Helper()
	a, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	return a.Policy, a.Nice
}

// A thread sleeps by SCHED_BATCH, and has its policy and its niceness again after that.
func TestYieldingLeavesThePolicy(t *testing.T) {
	runtime.LockOSThread() // and ends with the thread, whose niceness changes
	usual, nice := attr(t)
	if usual != unix.SCHED_NORMAL {
		t.Skip("the test runs by another policy than the usual one")
	}
	if nice < 19 {
		nice++
	}
	if err := unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), int(nice)); err != nil {
		t.Fatal(err)
	}
	called := false
	Yielding(func() {
		called = true
		if p, n := attr(t); p != unix.SCHED_BATCH || n != nice {
			t.Errorf("policy %d and niceness %d inside, want %d and %d", p, n, unix.SCHED_BATCH, nice)
		}
	})
	if p, n := attr(t); !called || p != usual || n != nice {
		t.Errorf("called %v; policy %d and niceness %d after it, want %d and %d", called, p, n, usual, nice)
	}
}

// An ordinary user may raise the niceness of a thread that sleeps, and not lower it again. The
// thread has its policy again after that.
func TestYieldingLeavesANicenessThatRose(t *testing.T) {
	runtime.LockOSThread() // and ends with the thread, which loses its privileges
	if policy, _ := attr(t); policy != unix.SCHED_NORMAL {
		t.Skip("the test runs by another policy than the usual one")
	}
	_, nice := attr(t)
	if nice > 18 {
		nice = 18
		if err := unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), int(nice)); err != nil {
			t.Skipf("the test runs with a niceness that cannot rise: %v", err)
		}
	}
	if unix.Geteuid() == 0 {
		const nobody = 65534
		if _, _, err := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody); err != 0 {
			t.Skipf("the test cannot become an ordinary user: %v", err)
		}
	}
	called := false
	Yielding(func() {
		called = true
		if err := unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), int(nice)+1); err != nil {
			t.Error(err)
		}
		if p, _ := attr(t); p != unix.SCHED_BATCH {
			t.Errorf("policy %d inside, want %d", p, unix.SCHED_BATCH)
		}
	})
	if p, n := attr(t); !called || p != unix.SCHED_NORMAL || n != nice+1 {
		t.Errorf("called %v; policy %d and niceness %d after it, want %d and %d", called, p, n,
			unix.SCHED_NORMAL, nice+1)
	}
}

// A thread with another policy keeps it.
func TestYieldingLeavesAnotherPolicy(t *testing.T) {
	runtime.LockOSThread()
	a, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	a.Policy = unix.SCHED_IDLE
	if err := unix.SchedSetAttr(0, a, 0); err != nil {
		t.Fatal(err)
	}
	Yielding(func() {
		if p, _ := attr(t); p != unix.SCHED_IDLE {
			t.Errorf("policy %d inside, want %d", p, unix.SCHED_IDLE)
		}
	})
	if p, _ := attr(t); p != unix.SCHED_IDLE {
		t.Errorf("policy %d after it, want %d", p, unix.SCHED_IDLE)
	}
}
