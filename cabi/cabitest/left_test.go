// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestNothingIsLeftBehind looks at the directory of this user's processes after programs that close
// nothing, without a keeper apart. The next program removes the files of a killed one.
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
		cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+lib, "XDG_RUNTIME_DIR="+run, "VERBENA_KEEPER=/nonexistent")
		out, err := cmd.CombinedOutput()
		if (err == nil) != (c.ends == "return") || strings.TrimSpace(string(out)) != "open" {
			t.Fatalf("%s: %v %s", c.ends, err, out)
		}
		for _, kind := range []string{"*.sock*", "ring*"} {
			list, err := filepath.Glob(filepath.Join(run, "verbena", kind))
			if err != nil || len(list) != c.left {
				t.Errorf("after %s %v are there, want %d", c.ends, list, c.left)
			}
		}
	}
}

// TestKeeperClearsAfterTheKilled is TestNothingIsLeftBehind with the libraries' keeper: it needs no
// command. The keeper removes the files of the last process, which is killed, and then its own.
func TestKeeperClearsAfterTheKilled(t *testing.T) {
	program, run := compile(t, "ends_open"), t.TempDir()
	lib, _ := libDir()
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		cmd := exec.CommandContext(t.Context(), program, strconv.Itoa(int(s)))
		cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+lib, "XDG_RUNTIME_DIR="+run, "PATH=")
		if out, err := cmd.CombinedOutput(); err == nil || strings.TrimSpace(string(out)) != "open" {
			t.Fatalf("%v: %v %s", s, err, out)
		}
		var left []string
		for until := time.Now().Add(within); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
			left, _ = filepath.Glob(filepath.Join(run, "verbena", "*"))
			// The last counters of the killed are for `verbena stat --ended`.
			left = slices.DeleteFunc(left, func(file string) bool { return filepath.Ext(file) == ".last" })
			if len(left) == 0 {
				break
			}
		}
		if len(left) > 0 {
			t.Errorf("after %v %v are there", s, left)
		}
	}
}
