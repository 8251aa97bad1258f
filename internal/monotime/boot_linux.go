// SPDX-License-Identifier: BSD-2-Clause

package monotime

import "golang.org/x/sys/unix"

// booted is the time of CLOCK_MONOTONIC at Time 0.
var booted = func() Time {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // fails for unknown clocks only
	return Time(t.Nano()) - Now()
}()
