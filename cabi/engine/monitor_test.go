// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

import (
	"os"
	"runtime"
	"testing"
)

// TestSpareProcessors checks that threads that have left Go leave processors for others.
func TestSpareProcessors(t *testing.T) {
	if v := os.Getenv("GOMAXPROCS"); v != "" {
		t.Skipf("GOMAXPROCS=%s sets the number of processors", v)
	}
	got := runtime.GOMAXPROCS(0)
	runtime.SetDefaultGOMAXPROCS()
	want := runtime.GOMAXPROCS(got) + spareProcessors
	if got != want {
		t.Errorf("%d processors of the Go runtime, want %d", got, want)
	}
}
