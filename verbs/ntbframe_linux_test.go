// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"errors"
	"testing"
	"time"

	"verbena/internal/core"
	"verbena/internal/ntb/backend"
)

// TestNTBFramesOverALinkThatIsUp carries frames between two processes of a meeting
// place that had a link before, and once at each side.
func TestNTBFramesOverALinkThatIsUp(t *testing.T) {
	a, b := ntbEnds(t, "shm", 64)
	from, to := (*core.Context)(a.ctx).NTB(), (*core.Context)(b.ctx).NTB()
	if from.Carries() || from.SendFrame(make([]byte, 60)) {
		t.Error("there is who takes frames")
	}
	came := make(chan int, 16)
	check(t, to.OnFrame(func(p []byte) { came <- len(p) }))
	check(t, from.OnFrame(func([]byte) {}))
	if err := from.OnFrame(func([]byte) {}); !errors.Is(err, backend.ErrInUse) {
		t.Errorf("frames of one side twice: %v", err)
	}
	for end := time.Now().Add(20 * time.Second); !from.Carries() || !to.Carries(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("frames are carried: %v, %v", from.Carries(), to.Carries())
		}
	}
	if !from.SendFrame(make([]byte, 60)) {
		t.Error("a frame is not taken")
	}
	if n := <-came; n != 60 {
		t.Errorf("a frame of %d bytes", n)
	}
	check(t, from.OnFrame(nil))
	check(t, to.OnFrame(nil))
}
