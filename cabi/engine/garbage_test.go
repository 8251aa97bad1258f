// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

import (
	"bytes"
	"math"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
)

func TestGarbageIsDue(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		what                        string
		objects, unused, free, live uint64
		want                        bool
	}{
		{"nothing yet", 1 * mib, 1 * mib, 0, 0, false},
		{"the first time", 5 * mib, 1 * mib, 0, 0, true},
		{"doubled", 24 * mib, 1 * mib, 1 * mib, 10 * mib, true},
		{"not doubled", 23 * mib, 1 * mib, 1 * mib, 10 * mib, false},
		{"doubled, with pages that are free", 24 * mib, 1 * mib, 2 * mib, 10 * mib, false},
	} {
		if got := due(c.objects, c.unused, c.free, c.live); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}

func TestBoundIsTheUsersAtMost(t *testing.T) {
	for _, c := range []struct {
		used       uint64
		user, want int64
	}{
		{0, math.MaxInt64, strayGarbage},
		{10 << 20, math.MaxInt64, 20<<20 + strayGarbage},
		{10 << 20, 1 << 20, 1 << 20},
		{1 << 62, math.MaxInt64, math.MaxInt64},
	} {
		if got := boundFor(c.used, c.user); got != c.want {
			t.Errorf("%d of %d in use: %d, want %d", c.used, c.user, got, c.want)
		}
	}
}

// TestMemoryLimitOfTheEnvironment compares the limits of a process with GOMEMLIMIT and of one
// without.
func TestMemoryLimitOfTheEnvironment(t *testing.T) {
	if os.Getenv("VERBENA_TEST_LIMIT") != "" {
		os.Stderr.WriteString(strconv.FormatInt(debug.SetMemoryLimit(-1)>>20, 10))
		return
	}
	limit := func(env ...string) int {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(append(os.Environ(), "VERBENA_TEST_LIMIT=1"), env...)
		var said bytes.Buffer
		cmd.Stderr = &said
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		mib, err := strconv.Atoi(said.String())
		if err != nil {
			t.Fatal(err)
		}
		return mib
	}
	if got := limit("GOMEMLIMIT=24MiB"); got != 24 {
		t.Errorf("GOMEMLIMIT=24MiB: %d MiB", got)
	}
	if got := limit(); got < strayGarbage>>20 || got > 64 {
		t.Errorf("without: %d MiB", got)
	}
}

// The bound follows collections that something else starts.
func TestBoundFollowsCollections(t *testing.T) {
	bound := func() int64 {
		garbage.mu.Lock()
		defer garbage.mu.Unlock()
		return garbage.bound
	}
	before := bound()
	large := make([]byte, 2*before)
	for bound() <= before {
		debug.FreeOSMemory() // collects
	}
	if got := bound(); got < int64(len(large)) {
		t.Errorf("%d bytes in use, and a bound of %d", len(large), got)
	}
	runtime.KeepAlive(large)
}
