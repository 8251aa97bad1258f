// SPDX-License-Identifier: BSD-2-Clause

package cputime

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// A thread that leaves its core runs on another, and may run on as many as before.
func TestLeaveCore(t *testing.T) {
	runtime.LockOSThread() // and ends with the thread
	var all, after unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	if err := unix.SchedSetaffinity(0, &all); err != nil {
		t.Skipf("the system lets no thread choose its cores: %v", err)
	}
	if all.Count() > 1 {
		left := false
		for i := 0; i < 1000 && !left; i++ { // the system may move a thread back
			before, err := core()
			if err != nil {
				t.Fatal(err)
			}
			if LeaveCore() {
				t.Fatal("the only core, of several")
			}
			n, _ := core()
			left = n != before
		}
		if !left {
			t.Error("did not leave its core a thousand times")
		}
		if err := unix.SchedGetaffinity(0, &after); err != nil || after != all {
			t.Errorf("may run on %v afterwards, %v; before on %v", after, err, all)
		}
	}
	here, err := core()
	if err != nil {
		t.Fatal(err)
	}
	var one unix.CPUSet
	one.Set(here)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		t.Fatal(err)
	}
	if !LeaveCore() {
		t.Error("not the only core")
	}
	allow(&one) // of more that the system allows
	if n, _ := core(); n != here {
		t.Errorf("left core %d, the only one, for %d", here, n)
	}
	if err := unix.SchedGetaffinity(0, &after); err != nil || after != one {
		t.Errorf("may run on %v, %v; want %v", after, err, one)
	}
}
