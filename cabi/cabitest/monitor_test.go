// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"errors"
	"os"
	"os/exec"
	"testing"
)

// TestMonitorMayBeLate checks the timer slack of the engine's threads. The monitor of the Go
// runtime woke every 300 µs in each process that calls into Go.
func TestMonitorMayBeLate(t *testing.T) {
	lib, _ := libDir()
	cmd := exec.Command(compile(t, "monitor_slack"))
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+lib)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 77 {
		t.Skipf("%s", out)
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
