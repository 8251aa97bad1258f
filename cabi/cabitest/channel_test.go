// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import "testing"

// TestChannelFlag runs programs whose channels change between blocking and non-blocking, with the
// library that sees the change.
func TestChannelFlag(t *testing.T) {
	for _, name := range []string{"channel_flag", "verbs_events"} {
		t.Run(name, func(t *testing.T) {
			program := compile(t, name)
			lib, _ := libDir()
			t.Setenv("LD_PRELOAD", lib+"/libverbena-preload.so")
			runProgram(t, program)
		})
	}
}

// TestBlockedThreadReadsOnItsOwn counts how often a thread that blocks for events has the engine's
// threads read.
func TestBlockedThreadReadsOnItsOwn(t *testing.T) {
	runProgram(t, compile(t, "event_waits", "-iquote", "../libibverbs", "-iquote", "../include"))
}

// TestCallsIntoGo counts the calls of two processes that exchange messages by rings.
func TestCallsIntoGo(t *testing.T) {
	runProgram(t, compile(t, "go_calls", "-iquote", "../libibverbs", "-iquote", "../include"))
}
