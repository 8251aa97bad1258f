// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import "testing"

// TestKillEndsConnections is TestExitEndsConnections of processes that are killed: the
// libraries' keeper speaks for them, with no command installed, and they do not see it among
// their children.
func TestKillEndsConnections(t *testing.T) {
	if _, here := newNetwork(t); !here {
		return
	}
	program := compile(t, "exit_cm")
	lib, _ := libDir()
	start := func(args ...string) *alone {
		p := newAlone(t, program, args...)
		p.cmd.Env = append(p.cmd.Env, "LD_LIBRARY_PATH="+lib, "PATH=")
		p.start()
		return p
	}
	const over = "RDMA_CM_EVENT_ESTABLISHED RDMA_CM_EVENT_DISCONNECTED"

	l := start("listen", "192.0.2.1", "killed")
	c := start("connect", "192.0.2.2", "192.0.2.1", l.line())
	if got := c.rest(); got != over {
		t.Errorf("the peer of a listener says %q", got)
	}
	l.isKilled()

	l = start("listen", "192.0.2.1")
	c = start("connect", "192.0.2.2", "killed", "192.0.2.1", l.line())
	if got := l.rest(); got != over {
		t.Errorf("the peer of a connector says %q", got)
	}
	c.isKilled()
}

// isKilled waits for its end, which must have been by SIGKILL.
func (p *alone) isKilled() {
	p.t.Helper()
	if err := p.cmd.Wait(); err == nil || err.Error() != "signal: killed" {
		p.t.Errorf("%v: %v %s", p.cmd.Args, err, p.stderr.String())
	}
}
