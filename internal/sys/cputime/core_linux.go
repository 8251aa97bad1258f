// SPDX-License-Identifier: BSD-2-Clause

package cputime

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// LeaveCore moves the calling thread to another of the cores that it may run on, by
// sched_setaffinity(2) without this core, and again with all. It reports whether this is the only
// one. Where the system refuses a call the thread stays.
func LeaveCore() (only bool) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return false
	}
	if all.Count() == 1 {
		return true
	}
	here, err := core()
	if err != nil {
		return false
	}
	others := all
	others.Clear(here)
	if err := unix.SchedSetaffinity(0, &others); err != nil {
		return false
	}
	_ = unix.SchedSetaffinity(0, &all) // what the system took from them meanwhile stays out
	return false
}
