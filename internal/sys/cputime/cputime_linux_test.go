// SPDX-License-Identifier: BSD-2-Clause

package cputime

import "testing"

func TestGrowsWithWorkOnly(t *testing.T) {
	first, ok := Used()
	if !ok {
		t.Fatal("the system does not tell the processor time of a process")
	}
	for { // the test's time-out ends it
		if now, _ := Used(); now > first {
			return
		}
	}
}
