//go:build cabi

package main

import "testing"

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
