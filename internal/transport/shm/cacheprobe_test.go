// SPDX-License-Identifier: BSD-2-Clause

package shm

import (
	"testing"

	"verbena/internal/engine/policy"
	"verbena/internal/mem"
	"verbena/internal/monotime"
)

// A ring whose bursts take long goes past the caches for a while, and looks again.
func TestCacheProbe(t *testing.T) {
	const n = 32 << 10
	fast, slow := monotime.Duration(n/(2*policy.BypassRate)), monotime.Duration(2*n/policy.BypassRate)
	var r cacheProbe
	wrote := func(times, n int, d monotime.Duration, want bool) {
		t.Helper()
		for range times {
			r.wrote(n, d)
		}
		if r.bypassCache() != (want && mem.Streams()) {
			t.Fatalf("far: %v", r.bypassCache())
		}
	}
	wrote(1000, n, fast, false)
	wrote(policy.BypassSlow-1, n, slow, false)
	wrote(1, n, fast, false) // the others were accidents
	wrote(policy.BypassSlow-1, n, slow, false)
	wrote(1000, policy.BypassBytes-1, slow, false) // says nothing
	wrote(1, n, slow, true)
	wrote(policy.BypassBursts-1, n, fast, true) // past the caches it is that fast
	wrote(1, n, fast, false)
	wrote(policy.BypassSlow-1, n, slow, false)
	wrote(1, n, slow, true)
	wrote(policy.BypassBursts, n, slow, false)
	wrote(1, n, fast, false)
}
