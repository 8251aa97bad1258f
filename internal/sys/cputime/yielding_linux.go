// SPDX-License-Identifier: BSD-2-Clause

package cputime

import "golang.org/x/sys/unix"

// Yielding calls f, which sleeps. When the calling thread wakes up in f it takes the core from no
// thread. It waits until the one that runs sleeps, or has used its slice. The goroutine is locked
// to its thread. A thread of another policy than the usual one, and one that the system refuses,
// sleeps as always.
func Yielding(f func()) {
	usual, err := unix.SchedGetAttr(0, 0)
	if err != nil || usual.Policy != unix.SCHED_NORMAL {
		f()
		return
	}
	batch := *usual
	batch.Policy = unix.SCHED_BATCH
	if unix.SchedSetAttr(0, &batch, 0) != nil {
		f()
		return
	}
	f()
	_ = unix.SchedSetAttr(0, usual, 0) // it was allowed before
}
