// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestEngineCannotBeLoaded: the first object fails with an errno, and one line says why.
func TestEngineCannotBeLoaded(t *testing.T) {
	lib, err := libDir()
	if err != nil {
		t.Fatal(err)
	}
	front, err := os.ReadFile(filepath.Join(lib, "libibverbs.so.1"))
	if err != nil {
		t.Fatal(err)
	}
	program := compile(t, "alloc_pd")
	for _, c := range []struct {
		name, why string
		engine    func(path string) error
	}{
		{"none", "No such file", func(string) error { return nil }},
		{"not a library", "file too short", func(path string) error { return os.WriteFile(path, []byte("no"), 0o644) }},
		{"another version", "engine of another version", func(path string) error {
			return exec.Command("gcc", "-shared", "-fPIC", "-o", path, "testdata/engine_of_another_version.c").Run()
		}},
		{"no engine", "is no engine", func(path string) error {
			return exec.Command("gcc", "-shared", "-fPIC", "-Dverbena_engine=other", "-o", path, "testdata/engine_of_another_version.c").Run()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "libibverbs.so.1"), front, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := c.engine(filepath.Join(dir, "libverbena-engine.so")); err != nil {
				t.Fatal(err)
			}
			want := syscall.ELIBACC.Error()
			for _, debug := range []string{"", "0", "1"} {
				out, complaint := outputOf(t, program, []string{"LD_LIBRARY_PATH=" + dir, "VERBENA_DEBUG=" + debug})
				if got := strings.TrimSpace(out); !strings.EqualFold(got, want) {
					t.Errorf("the first object: %q, want %q", got, want)
				}
				if !strings.Contains(complaint, c.why) || strings.Count(complaint, "\n") != 1 {
					t.Errorf("%q: want one line with %q", complaint, c.why)
				}
			}
		})
	}
}

// TestNoRoomForEngine: without the addresses and descriptors that the runtime of the engine starts
// with, a call fails with an errno. The runtime would end the process.
func TestNoRoomForEngine(t *testing.T) {
	lib, err := libDir()
	if err != nil {
		t.Fatal(err)
	}
	program := compile(t, "alloc_pd")
	for limit, want := range map[string]syscall.Errno{
		"-v 100000": syscall.ENOMEM,
		"-v 500000": syscall.ENOMEM,
		"-v 900000": syscall.ENOMEM,
		"-n 7":      syscall.EMFILE,
		"-n 9":      syscall.EMFILE,
		"-n 10":     syscall.EMFILE,
		"-n 12":     syscall.EMFILE,
	} {
		out, complaint := outputOf(t, "/bin/sh", []string{"LD_LIBRARY_PATH=" + lib}, "-c", "ulimit "+limit+"; exec "+program)
		if got := strings.TrimSpace(out); !strings.EqualFold(got, want.Error()) {
			t.Errorf("ulimit %s: %q, want %q", limit, got, want)
		}
		if strings.Count(complaint, "\n") != 1 || !strings.Contains(complaint, "(ulimit "+limit[:2]+")") {
			t.Errorf("ulimit %s: %q: want one line", limit, complaint)
		}
	}
}
