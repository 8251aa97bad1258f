// SPDX-License-Identifier: BSD-2-Clause

package cputime

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Yielding calls f, which sleeps. When the calling thread wakes up in f it takes the core from no
// thread. It waits until the one that runs sleeps, or has used its slice. The goroutine is locked
// to its thread. A thread of another policy than the usual one, and one that the system refuses,
// sleeps as always. If the system refuses the usual policy after f, the thread stays the
// goroutine's for good, and ends with it.
func Yielding(f func()) {
	changed, _ := setPolicy(unix.SCHED_NORMAL, unix.SCHED_BATCH)
	f()
	if !changed {
		return
	}
	if _, err := setPolicy(unix.SCHED_BATCH, unix.SCHED_NORMAL); err != nil {
		runtime.LockOSThread() // once more than the caller unlocks it
	}
}

// setPolicy changes the policy of the calling thread if it has the first one. Its other attributes
// stay as they are, as another thread may have changed its niceness.
func setPolicy(from, to uint32) (changed bool, err error) {
	for range 2 { // the niceness may change in between
		var a *unix.SchedAttr
		if a, err = unix.SchedGetAttr(0, 0); err != nil || a.Policy != from {
			return false, err
		}
		a.Policy, a.Runtime = to, 0 // newer kernels take a run time for a slice of the thread's own
		if err = unix.SchedSetAttr(0, a, 0); err == nil {
			return true, nil
		}
	}
	return false, err
}
