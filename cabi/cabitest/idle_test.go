// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"testing"

	"verbena/internal/testkit/idle"
)

// TestIdleConnectionsWakeNobody has a program with a listener and 200 connections sleep. No other
// process has an address of its network.
func TestIdleConnectionsWakeNobody(t *testing.T) {
	if _, here := newNetwork(t); !here {
		return
	}
	for _, kind := range []string{"roce", "iwarp"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := newAlone(t, compile(t, "cm_idle"), "192.0.2.1")
			p.cmd.Env = append(p.cmd.Environ(), "VERBENA_DEVICES="+kind+"_d0")
			in, err := p.cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			p.start()
			if got := p.line(); got != "idle" {
				t.Fatalf("it says %q", got)
			}
			idle.Wait(t, p.cmd.Process.Pid)
			in.Close()
			p.rest()
		})
	}
}
