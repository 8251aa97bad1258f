// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestPulledDevice: a C program is notified when the memory of a link goes away, and none of its
// calls hangs. One is a file that becomes shorter, one a PCI device that is pulled out.
func TestPulledDevice(t *testing.T) {
	program := compile(t, "pulled")
	t.Run("file", func(t *testing.T) { runProgram(t, program, filepath.Join(t.TempDir(), "window")) })
	t.Run("PCI", func(t *testing.T) {
		lib, _ := libDir()
		cmd := exec.CommandContext(t.Context(), program, t.TempDir(), "0000:00:05.0")
		cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+lib)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		switch {
		case errors.As(err, &exit) && exit.ExitCode() == 77:
			t.Skipf("no sysfs of its own: %s", out)
		case err != nil:
			t.Fatalf("%v\n%s", err, out)
		}
	})
}
