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
