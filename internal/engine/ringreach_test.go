// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"testing"

	"verbena/internal/mem"
	"verbena/internal/monotime"
)

// A ring whose trains take long goes past the caches for a while, and looks again.
func TestReach(t *testing.T) {
	const n = 32 << 10
	fast, slow := monotime.Duration(n/(2*reachRate)), monotime.Duration(2*n/reachRate)
	var r reach
	wrote := func(times, n int, d monotime.Duration, want bool) {
		t.Helper()
		for range times {
			r.wrote(n, d)
		}
		if r.far() != (want && mem.Streams()) {
			t.Fatalf("far: %v", r.far())
		}
	}
	wrote(1000, n, fast, false)
	wrote(reachSlow-1, n, slow, false)
	wrote(1, n, fast, false) // the others were accidents
	wrote(reachSlow-1, n, slow, false)
	wrote(1000, reachBytes-1, slow, false) // says nothing
	wrote(1, n, slow, true)
	wrote(reachTrains-1, n, fast, true) // that is how fast it is past them
	wrote(1, n, fast, false)
	wrote(reachSlow-1, n, slow, false)
	wrote(1, n, slow, true)
	wrote(reachTrains, n, slow, false)
	wrote(1, n, fast, false)
}
