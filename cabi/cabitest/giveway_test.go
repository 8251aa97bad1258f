// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"os/exec"
	"testing"
)

// TestGiveWay runs the policy by which a polling thread gives the core to others.
func TestGiveWay(t *testing.T) {
	program := compile(t, "give_way", "-iquote", "../include")
	if out, err := exec.Command(program).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestYieldsForTheRestOfAMessage counts the yields of a thread that sleeps for events.
func TestYieldsForTheRestOfAMessage(t *testing.T) {
	runProgram(t, compile(t, "event_yields", "-iquote", "../include"))
}

// TestNap has a thread nap between polls: by closed descriptors, and one that is cancelled.
func TestNap(t *testing.T) {
	runProgram(t, compile(t, "nap", "-iquote", "../include"))
}

// TestPollersOnOneCore counts the switches of threads that a message takes where eight
// processes poll on one core: the engine's own threads have no part in it.
func TestPollersOnOneCore(t *testing.T) { run(t, "many_pollers") }
