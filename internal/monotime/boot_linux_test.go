// SPDX-License-Identifier: BSD-2-Clause

package monotime

import (
	"testing"

	"golang.org/x/sys/unix"
)

// All processes of a machine have the same multiples: those of CLOCK_MONOTONIC.
func TestNextMultiple(t *testing.T) {
	const d = 256 * Microsecond
	for _, zero := range []Time{0, 1, 12345678, Time(d) - 1, Time(d)} {
		for _, at := range []Time{0, 1, Time(d) - 1, Time(d), 7 * Time(d), 98765432} {
			n := nextMultiple(at, zero, d)
			if (zero+n)%Time(d) != 0 || n <= at || n.Sub(at) > d {
				t.Errorf("after %d the next multiple is at %d, where the clock began at %d", at, n, zero)
			}
		}
	}
	var clock unix.Timespec
	before := Now()
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &clock); err != nil {
		t.Fatal(err)
	}
	if got := Time(clock.Nano()) - booted; got < before-Time(Millisecond) || got > Now()+Time(Millisecond) {
		t.Errorf("at CLOCK_MONOTONIC %v it is %v, want %v", clock, got, before)
	}
}
