// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// installed is a directory of the libraries with the command at its place beside them.
func installed(t *testing.T) string {
	t.Helper()
	lib, err := libDir()
	if err != nil {
		t.Fatal(err)
	}
	prefix := t.TempDir()
	out, err := exec.Command("go", "build", "-o", filepath.Join(prefix, "bin/verbena"), "verbena/cmd/verbena").CombinedOutput()
	if err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	at := filepath.Join(prefix, "lib/verbena")
	if err = os.Mkdir(filepath.Dir(at), 0o755); err == nil {
		err = os.Symlink(lib, at)
	}
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// TestKillEndsConnections is TestExitEndsConnections of processes that are killed: their
// keeper speaks for them, and they do not see it among their children.
func TestKillEndsConnections(t *testing.T) {
	if _, here := newNetwork(t); !here {
		return
	}
	program, lib := compile(t, "exit_cm"), installed(t)
	start := func(args ...string) *alone {
		p := newAlone(t, program, args...)
		p.cmd.Env = append(p.cmd.Env, "LD_LIBRARY_PATH="+lib)
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
