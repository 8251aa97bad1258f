// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestKillEndsConnections is TestExitEndsConnections of processes that are killed: the
// libraries' keeper speaks for them, with no command installed, and they do not see it among
// their children. Its process group is its own, as terminals signal groups. Its session is theirs,
// as the scheduler shares processors among sessions.
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
	number := l.line()
	pid, group, session := keeperOf(l).ids()
	if ours, err := unix.Getsid(0); err != nil || group != pid || session != ours {
		t.Errorf("keeper %d is in process group %d and session %d, its programs in %d, %v", pid, group,
			session, ours, err)
	}
	c := start("connect", "192.0.2.2", "192.0.2.1", number)
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

// TestCrashInAContainer has the only program of a PID namespace crash: "verbena run" is its process
// 1, and the program's peer learns of the end. The status is the program's.
func TestCrashInAContainer(t *testing.T) {
	if _, here := newNetwork(t); !here {
		return
	}
	program, command := compile(t, "exit_cm"), verbena(t)
	for range 5 {
		l := startAlone(t, program, "listen", "192.0.2.1")
		c := startContainer(t, command, "run", program, "connect", "192.0.2.2", "crashes", "192.0.2.1", l.line())
		if got, want := l.rest(), "RDMA_CM_EVENT_ESTABLISHED RDMA_CM_EVENT_DISCONNECTED"; got != want {
			t.Errorf("the peer says %q", got)
		}
		if err := c.cmd.Wait(); err == nil || err.Error() != "exit status 132" {
			t.Errorf("%v, want 128 and SIGILL: %s", err, c.stderr.String())
		}
	}
}

// TestProcess1PassesSignalsOn: a program below "verbena run" as process 1 gets the signals of that.
// The program's orphans end with it.
func TestProcess1PassesSignalsOn(t *testing.T) {
	const script = `(sleep 1000 &); trap "exit 7" TERM; echo $$; kill -TERM 1; while :; do sleep 0.01; done`
	begun := time.Now()
	c := startContainer(t, verbena(t), "run", "sh", "-c", script)
	if pid := c.line(); pid == "1" {
		t.Error("the program is process 1 itself")
	}
	if err := c.cmd.Wait(); err == nil || err.Error() != "exit status 7" {
		t.Errorf("%v, want the program's status, 7: %s", err, c.stderr.String())
	}
	if d := time.Since(begun); d > within {
		t.Errorf("it took %v", d)
	}
}

// startContainer starts a program as process 1 of a PID namespace.
func startContainer(t *testing.T, args ...string) *alone {
	t.Helper()
	unshare := []string{"--pid", "--fork", "--mount-proc"}
	if out, err := exec.Command("unshare", append(unshare, "true")...).CombinedOutput(); err != nil {
		t.Skipf("needs a PID namespace with a /proc of its own: %v %s", err, out)
	}
	return startAlone(t, "unshare", append(unshare, args...)...)
}

// isKilled waits for its end, which must have been by SIGKILL.
func (p *alone) isKilled() {
	p.t.Helper()
	if err := p.cmd.Wait(); err == nil || err.Error() != "signal: killed" {
		p.t.Errorf("%v: %v %s", p.cmd.Args, err, p.stderr.String())
	}
}
