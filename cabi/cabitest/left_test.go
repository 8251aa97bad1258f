// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestNothingIsLeftBehind looks at the directory of this user's processes after
// programs that close nothing. What one leaves that is killed the next one removes.
func TestNothingIsLeftBehind(t *testing.T) {
	program := compile(t, "ends_open")
	lib, _ := libDir()
	run := t.TempDir()
	number := func(s syscall.Signal) string { return strconv.Itoa(int(s)) }
	for _, c := range []struct {
		ends string
		left int
	}{
		{"return", 0},
		{number(syscall.SIGTERM), 1},
		{number(syscall.SIGKILL), 1},
		{"return", 0},
	} {
		cmd := exec.CommandContext(t.Context(), program, c.ends)
		cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+lib, "XDG_RUNTIME_DIR="+run)
		out, err := cmd.CombinedOutput()
		if (err == nil) != (c.ends == "return") || strings.TrimSpace(string(out)) != "open" {
			t.Fatalf("%s: %v %s", c.ends, err, out)
		}
		for _, kind := range []string{"*.sock*", "ring-*"} {
			list, err := filepath.Glob(filepath.Join(run, "verbena", kind))
			if err != nil || len(list) != c.left {
				t.Errorf("after %s %v are there, want %d", c.ends, list, c.left)
			}
		}
	}
}
