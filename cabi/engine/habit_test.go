// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

import "testing"

func TestHabitOfPollingAgain(t *testing.T) {
	var h habit
	found := func(have, most int, want bool) {
		t.Helper()
		if got := h.found(have, most); got != want {
			t.Errorf("%d of %d completions, %d polls after fewer: %v", have, most, h.again.Load(), got)
		}
	}
	for range often {
		found(1, 4, false) // it may sleep now
		h.polls()          // but it does not
	}
	found(1, 4, true)
	h.polls()
	h.polls() // it found nothing, and sleeps
	h.arms()
	found(1, 4, true)
	h.arms() // it slept after fewer
	found(1, 4, false)
	found(4, 4, true)
	h.arms() // there was no poll with fewer before
	found(4, 4, true)
}
