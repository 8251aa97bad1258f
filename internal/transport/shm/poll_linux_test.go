// SPDX-License-Identifier: BSD-2-Clause

package shm

import (
	"testing"

	"verbena/internal/sys/shmring"
)

// A poll of a process with 15 peers, one of the 16 ranks of an MPI program, that finds nothing.
func BenchmarkPollOfIdleRings(b *testing.B) {
	l := openAlone(b, b.TempDir(), 1)
	l.eng.Probe().StopBackground()
	for range 15 {
		_, rx := shmring.NewPair()
		l.add(&In{slot: 1, rx: rx}, nil)
	}
	lane := l.eng.FirstLane()
	for b.Loop() {
		lane.Poll()
	}
}
