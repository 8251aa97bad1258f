// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// theirs returns a directory with rdma-core's libraries and no others.
func theirs(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"libibverbs.so.1", "librdmacm.so.1"} {
		file, err := exec.Command("gcc", "-print-file-name="+name).Output()
		if err == nil {
			err = os.Symlink(filepath.Clean(strings.TrimSpace(string(file))), filepath.Join(dir, name))
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Fatalf("%v: libibverbs-dev and librdmacm-dev bring it", err)
		}
	}
	return dir
}

// TestEveryLoaderFindsUs: programs find our libraries also other than by soname and
// LD_LIBRARY_PATH.
func TestEveryLoaderFindsUs(t *testing.T) {
	command := verbena(t)
	t.Run("names without a version", func(t *testing.T) { unversionedNames(t, command) })
	t.Run("DT_RPATH", func(t *testing.T) { programsWithRPath(t, command) })
	t.Run("another library", func(t *testing.T) { anotherLibrary(t, command) })
}

// unversionedNames: NCCL, brpc and others open the libraries by the names that only
// development packages have.
func unversionedNames(t *testing.T, command string) {
	program := compile(t, "dlopen_name")
	for _, name := range []string{"libibverbs.so", "libibverbs.so.1", "librdmacm.so", "librdmacm.so.1"} {
		if out, complaints := outputOf(t, command, nil, "run", program, name); !strings.HasPrefix(out, "roce_") || complaints != "" {
			t.Errorf("%s: the first device is %q; %s", name, out, complaints)
		}
	}
}

// programsWithRPath: the loader takes DT_RPATH before LD_LIBRARY_PATH, for the
// program that is started and for its children, whose environment is as it was.
func programsWithRPath(t *testing.T, command string) {
	program := compile(t, "alloc_pd", "-Wl,--no-as-needed", "-lrdmacm", "-Wl,--disable-new-dtags,-rpath,"+theirs(t))
	for _, args := range [][]string{{program}, {"sh", "-c", program + "; true"}} {
		if out, complaints := outputOf(t, command, nil, append([]string{"run"}, args...)...); out != "made\n" || complaints != "" {
			t.Errorf("%q: %q, %s", args, out, complaints)
		}
	}
	shell := filepath.Join(t.TempDir(), "shell") // which has their libraries, and prints its children's environment
	source := shell + ".c"
	err := os.WriteFile(source, []byte("#include <stdlib.h>\n#include <infiniband/verbs.h>\n"+
		"int main(void) { ibv_fork_init(); return system(\"echo $LD_PRELOAD\"); }\n"), 0o644)
	if out, cc := exec.Command("gcc", "-o", shell, source, "-libverbs", "-Wl,--disable-new-dtags,-rpath,"+theirs(t)).CombinedOutput(); err != nil || cc != nil {
		t.Fatalf("%v\n%s", errors.Join(err, cc), out)
	}
	if out, complaints := outputOf(t, command, []string{"LD_PRELOAD="}, "run", shell); !strings.HasSuffix(out, "/libverbena-preload.so\n") || strings.Contains(out, ":") || complaints != "" {
		t.Errorf("children have LD_PRELOAD=%q; %s", out, complaints)
	}
}

// anotherLibrary: a program that opens another libibverbs by its path finds no device, and one line
// says why and what to do.
func anotherLibrary(t *testing.T, command string) {
	program := compile(t, "dlopen_name")
	other := filepath.Join(theirs(t), "libibverbs.so.1")
	_, complaints := outputOf(t, command, nil, "run", program, other)
	want := "verbena: dlopen_name uses " + other + ", which does not see Verbena's devices; start it with LD_PRELOAD="
	if !strings.HasPrefix(complaints, want) || strings.Count(complaints, "\n") != 1 {
		t.Errorf("%q, want one line that begins %q", complaints, want)
	}
}
