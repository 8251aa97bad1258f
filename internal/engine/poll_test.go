// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"testing"

	"verbena/internal/engine/policy"
)

// A poll that counts for n passes every multiple that one of n polls would have passed.
func TestPassed(t *testing.T) {
	for _, step := range []uint64{1, 3, 16, 17, 64, 100} {
		times, last := 0, uint64(0)
		for range 100 {
			if last += step; passed(last, step, 64) {
				times++
			}
		}
		if want := min(100*step/64, 100); uint64(times) != want {
			t.Errorf("100 polls for %d each look %d times, want %d", step, times, want)
		}
	}
}

// frameRing is that of an interface's frames.
type frameRing struct{ idleRing }

func (r *frameRing) Frames() bool { return true }

// Beside rings a look at the sockets costs as much as many polls. Where many looks found nothing
// they become rarer, until one finds something.
func TestSilentSocketsAreLookedAtRarely(t *testing.T) {
	e, in := stoppedWithRing(t, func(*Engine) bool { return false })
	lane := e.FirstLane()
	for in.threads < int(policy.SilentLooks) {
		lane.Poll()
	}
	looks := func() int {
		in.threads = 0
		for range 4 * policy.SilentPolls {
			lane.Poll()
		}
		return in.threads
	}
	if n := looks(); n > 5 {
		t.Errorf("%d looks in %d polls, want 4", n, 4*policy.SilentPolls)
	}
	frames := &frameRing{}
	e.AddRing(frames)
	if n := looks(); n > 2 {
		t.Errorf("%d looks in %d polls beside frames, want %d", n, 4*policy.SilentPolls,
			4*policy.SilentPolls/policy.FramePolls)
	}
	e.RemoveRing(frames)
	for in.came = 1; in.came > 0; {
		lane.Poll()
	}
	if n, want := looks(), int(4*policy.SilentPolls/policy.SocketPolls); n < want {
		t.Errorf("%d looks after a message, want %d", n, want)
	}
}
