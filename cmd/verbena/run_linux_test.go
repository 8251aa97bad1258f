// SPDX-License-Identifier: BSD-2-Clause

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// installed makes the test binary an installed command; its libraries are
// empty, which the loader reports and passes over.
func installed(t *testing.T) string {
	t.Helper()
	prefix, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"bin", "lib/verbena"} {
		if err := os.MkdirAll(filepath.Join(prefix, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(prefix, "bin/verbena"), self, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"libibverbs.so.1", "librdmacm.so.1", "libverbena-engine.so", "libverbena-preload.so"} {
		if err := os.WriteFile(filepath.Join(prefix, "lib/verbena", name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return prefix
}

func TestRunTakesTheProgramsPlace(t *testing.T) {
	prefix := installed(t)
	verbena := func(args ...string) (*exec.Cmd, *bytes.Buffer) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(prefix, "bin/verbena"), args...)
		cmd.Env = append(os.Environ(), asCommand+"=1", "XDG_RUNTIME_DIR="+prefix)
		var out bytes.Buffer
		cmd.Stdout = &out
		return cmd, &out
	}

	cmd, out := verbena("run", "--faults", "loss=1%", "--pcap", "x.pcapng", "sh", "-c",
		`echo $$; echo "$LD_LIBRARY_PATH"; echo "$VERBENA_FAULTS"; basename "$VERBENA_PCAP"; test -f "$VERBENA_ROOT/proc/sys/net/rdma_ucm/max_backlog" && exit 7`)
	if err := cmd.Run(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("the program's exit status did not arrive: %v", err)
	}
	lines := strings.Split(out.String(), "\n")
	if len(lines) < 4 || !strings.HasPrefix(lines[1], prefix+"/lib/verbena") || lines[2] != "loss=1%" || lines[3] != "x-%p.pcapng" {
		t.Errorf("the program said %q", lines)
	}

	cmd, out = verbena("run", "sh", "-c", "echo $$; kill -TERM $$")
	_ = cmd.Run() // the state tells
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !ws.Signaled() || ws.Signal() != syscall.SIGTERM {
		t.Errorf("the program ended as %v, not by its signal", cmd.ProcessState)
	}
	if got, want := strings.TrimSpace(out.String()), cmd.ProcessState.Pid(); got != strconv.Itoa(want) {
		t.Errorf("the program is process %s, not %d: something stands between", got, want)
	}
}

// A prefix from which the loader could not take the libraries.
func TestInstallRefusesAPrefix(t *testing.T) {
	prefix := filepath.Join(t.TempDir(), "a b")
	cmd := exec.CommandContext(t.Context(), "../../packaging/install")
	cmd.Env = append(os.Environ(), "PREFIX="+prefix, "DESTDIR=")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "PREFIX is "+prefix+": LD_PRELOAD cannot hold") {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := os.Stat(prefix); err == nil {
		t.Error("something was installed")
	}
}
