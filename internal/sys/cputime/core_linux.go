// SPDX-License-Identifier: BSD-2-Clause

package cputime

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// LeaveCore moves the calling thread to another of the cores that it may run on, by
// sched_setaffinity(2) without this core, and again with all. The system chooses which. LeaveCore
// reports whether this is the only one. Where the system refuses a call the thread stays.
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
	if err := unix.SchedSetaffinity(0, &others); err == nil {
		allow(&all)
	}
	return false
}

// allow lets the calling thread run on the cores of a set, and on no others. If the system allows
// it no others, it gets those too that the system may add later to the process's cpuset.
func allow(set *unix.CPUSet) {
	var every, now unix.CPUSet
	every.Fill()
	if unix.SchedSetaffinity(0, &every) == nil &&
		unix.SchedGetaffinity(0, &now) == nil && now == *set {
		return
	}
	_ = unix.SchedSetaffinity(0, set) // fails if the system took all of them: it has chosen others
}
