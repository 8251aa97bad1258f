// SPDX-License-Identifier: BSD-2-Clause

package cputime

import (
	"golang.org/x/sys/unix"

	"verbena/internal/monotime"
)

// Used returns the processor time that all threads of the process have used. ok is false if the
// system does not report it.
func Used() (d monotime.Duration, ok bool) {
	var t unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t)
	return monotime.Duration(t.Nano()), err == nil
}

// Preemptions returns how often threads of the process have had to leave their core to another
// thread, though they could go on. A sched_yield counts if another thread got the core.
func Preemptions() uint64 {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u) // fails for bad arguments only
	return uint64(u.Nivcsw)
}
