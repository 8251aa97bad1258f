// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

import "sync/atomic"

// A habit notes whether the application polls again after a poll that returned fewer completions
// than it asked for. It then need not be woken before that poll: its peers ring no bell for it
// while it is at work. Otherwise it may sleep. Several threads may poll: a note may be lost.
type habit struct {
	fewer atomic.Bool   // the last poll returned fewer
	again atomic.Uint32 // the number of polls after that, since the last time that there was none
}

// often is the number of repetitions after which the application is expected to do the same again.
const often = 3

// polls notes that the application polls.
func (h *habit) polls() {
	if h.fewer.Load() {
		h.fewer.Store(false)
		h.again.Add(1)
	}
}

// arms notes that the application asks for an event.
func (h *habit) arms() {
	if h.fewer.Load() {
		h.fewer.Store(false)
		h.again.Store(0)
	}
}

// found notes that a poll returns have completions, where most were asked for. It reports whether
// the application is expected to poll again.
func (h *habit) found(have, most int) bool {
	h.fewer.Store(have < most)
	return have >= most || h.again.Load() >= often
}
